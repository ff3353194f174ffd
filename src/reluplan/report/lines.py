"""Lines of two columns: a word, and a sentence that goes on below itself at any width."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from rich.console import Console

Line = tuple[str, str]
"""A word that says what it is about, empty if the same as before, and a sentence."""
INDENT = 11
NARROWEST = 40


def print_lines(lines: Iterable[Line], console: Console) -> None:
    """Wrapped at the console's width; words that are longer, such as paths, are not broken."""
    for word, sentence in lines:
        indent = " " * (INDENT + 2 * sentence.startswith("- "))
        text = textwrap.fill(
            sentence, max(NARROWEST, console.width), initial_indent=f"{word:<{INDENT}}", subsequent_indent=indent,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        console.print(text, soft_wrap=True)
