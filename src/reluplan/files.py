"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from reluplan.errors import InputError


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write to a temporary name in the same folder, then rename; creates the folder."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
