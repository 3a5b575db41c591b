"""What a launcher says to the person at its job: whole lines, and one live line while the job waits.

On a terminal the live line is redrawn in its place; elsewhere each change of it is a line. Standard error
only: standard output is the job's.
"""

import os
import shutil
from typing import TextIO

from service.printable import on_a_line

PREFIX = "fallow: "


class TerminalOutput:
    """Says lines at ``stream``; a reader that went away is no reason to end a job."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._live = ""

    def say(self, text: str) -> None:
        """A line that stays."""
        self._clear()
        for line in text.splitlines() or [""]:
            self._write(f"{PREFIX}{on_a_line(line)}{self._end}")

    def wait(self, text: str) -> None:
        """The live line; said again only when it differs."""
        text = f"{PREFIX}{on_a_line(text)}"
        if text == self._live:
            return
        if self._is_terminal:
            width = shutil.get_terminal_size().columns
            shown = text if len(text) < width else f"{text[: max(0, width - 2)]}…"
            self._write(f"\r\x1b[K{shown}")
        else:
            self._write(f"{text}\n")
        self._live = text

    def over(self) -> None:
        """There is nothing more to wait for: take the live line away."""
        self._clear()

    @property
    def _end(self) -> str:
        return "\r\n" if self._is_terminal else "\n"  # the job may have put the terminal into raw mode

    def _clear(self) -> None:
        if self._live and self._is_terminal:
            self._write("\r\x1b[K")
        self._live = ""

    def _write(self, text: str) -> None:
        try:
            os.write(self._stream.fileno(), text.encode(errors="replace"))
        except (OSError, ValueError):
            return
