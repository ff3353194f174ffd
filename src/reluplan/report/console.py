"""The console that results are printed on."""

from __future__ import annotations

from rich.console import Console


class ResultConsole(Console):
    """Plain text as it is, on standard output; a reader that closes the pipe is no error."""

    def __init__(self, *, soft_wrap: bool = False) -> None:
        super().__init__(highlight=False, markup=False, soft_wrap=soft_wrap)

    def on_broken_pipe(self) -> None:
        """Left to the command line, which ends quietly; rich would end the process with code 1."""
        raise BrokenPipeError
