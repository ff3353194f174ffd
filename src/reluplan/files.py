"""Writing files so that a reader never sees half of one, nor files of two runs side by side; and what JSON holds."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from reluplan.errors import OutputError

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
BLOCK = 4096


def write_atomically(path: Path, content: str | bytes, create_folder: bool = True) -> None:
    """Write to a temporary name in the same folder, then rename: the one way in which files of users are written."""
    try:
        if create_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        temporary = write_beside(path, content)
        try:
            temporary.replace(path)
        except BaseException:
            discard(temporary)
            raise
    except OSError as error:
        raise OutputError(cannot_write(path, error)) from None


def write_beside(path: Path, content: str | bytes) -> Path:
    """Write to a temporary name in the same folder, to be renamed; what cannot be written whole is removed again."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    except BaseException:
        discard(temporary)
        raise
    return temporary


def discard(path: Path) -> None:
    """Remove a file if that is possible."""
    with suppress(OSError):
        path.unlink()


def cannot_write(path: Path, error: OSError) -> str:
    """The one sentence about a file that could not be written."""
    return f"{path}: cannot be written ({error.strerror or error})"


def replace_pair(
    folder: Path, claim: tuple[str, str], evidence: tuple[str, str | None], old: tuple[str, ...]
) -> tuple[list[str], bool]:
    """Replace two files that belong together, each (name, content): what went wrong, in words, and whether the `old`
    files of the run before were left as they are.

    The claim (result.json) speaks of the evidence (plan.csv; None: there must be none), so a reader must never find a
    claim beside the evidence of another run, whatever fails or is killed in between; nor should a run be lost for
    another of which nothing can be written:

    1. both are written under temporary names, the evidence first; where the disk is full, again after the old files are
       removed, if that makes room enough;
    2. the old files stay if the evidence could not be written, or nothing could;
    3. the old claim is removed; if that fails, nothing is changed;
    4. the evidence is put in place, or at least the old one removed; if neither works, there will be no claim;
    5. the claim is put in place.

    A reader finds the old pair, evidence alone, a claim alone if its evidence did not fit, or the new pair.
    """
    failures: list[str] = []

    def attempt(path: Path, action: Callable[[], Path | None]) -> Path | None:
        try:
            return action()
        except OSError as error:
            failures.append(cannot_write(path, error))
            return None

    claimed = folder / claim[0]
    shown = folder / evidence[0]
    text = evidence[1]
    new_shown = None if text is None else attempt(shown, lambda: _write_where_it_fits(shown, text, old))
    if text is not None and new_shown is None and _any_exists(folder, old):
        return failures, True
    is_doomed = new_shown is not None
    new_claimed = attempt(claimed, lambda: _write_where_it_fits(claimed, claim[1], old, is_doomed))
    if new_shown is None and new_claimed is None:
        return failures, _any_exists(folder, old)
    try:
        claimed.unlink(missing_ok=True)
        if new_shown is None or attempt(shown, lambda: new_shown.replace(shown)) is None:
            shown.unlink(missing_ok=True)
        if new_claimed is not None:
            attempt(claimed, lambda: new_claimed.replace(claimed))
    except OSError as error:
        failures.append(cannot_write(claimed if claimed.exists() else shown, error))
    finally:
        for temporary in (new_shown, new_claimed):
            if temporary is not None:
                discard(temporary)
    return list(dict.fromkeys(failures)), False


def _any_exists(folder: Path, names: tuple[str, ...]) -> bool:
    return any(os.path.lexists(folder / name) for name in names)  # Path.exists complains about closed folders


def _write_where_it_fits(path: Path, content: str, old: tuple[str, ...], is_doomed: bool = False) -> Path:
    """Write beside; on a full disk the old files make way, if they are doomed anyway or that is enough."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return write_beside(path, content)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        free = shutil.disk_usage(path.parent).free if error.errno == errno.ENOSPC else 0  # which knows of no quota
        if not is_doomed and free + _allocated(path.parent, old) < _whole_blocks(len(content.encode("utf-8"))):
            raise
    for name in old:  # the claim first, so that what is left of the old run claims nothing
        discard(path.parent / name)
    return write_beside(path, content)


def _allocated(folder: Path, names: tuple[str, ...]) -> int:
    """Bytes of the disk that these files hold."""
    total = 0
    for name in names:
        with suppress(OSError):
            found = (folder / name).lstat()
            total += found.st_blocks * 512 if hasattr(found, "st_blocks") else found.st_size
    return total


def _whole_blocks(size: int) -> int:
    """Bytes that a file of this size takes on most disks."""
    return -(-size // BLOCK) * BLOCK


def json_text(record: Any) -> str:
    """A record of plain values as JSON; numbers that are not finite, which JSON has no words for, become null."""
    return json.dumps(_finite(record), indent=2)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
