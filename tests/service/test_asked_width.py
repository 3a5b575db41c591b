"""A width that somebody set with COLUMNS is kept in a pipe too; without one no line there is cut."""

import sys
from io import StringIO

import pytest

from service.cli.screen import PIPE_WIDTH, Column, console, table

COLUMNS = (Column(title="gpu"), Column(title="why", below=True))
ROW = ("n1:0", " ".join(["word"] * 40))


def lines(monkeypatch: pytest.MonkeyPatch, asked: str | None) -> list[str]:
    out = StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    if asked is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", asked)
    screen = console()
    screen.print(table(COLUMNS, [ROW]))
    screen.print(ROW[1])
    return out.getvalue().splitlines()


@pytest.mark.parametrize("asked", ["40", "80", "120"])
def test_a_pipe_is_as_wide_as_somebody_asked(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    printed = lines(monkeypatch, asked)
    assert max(map(len, printed)) <= int(asked)
    assert "word word" in printed[-1], "wrapped, not cut"
    assert " ".join(printed).count("word") == 80


@pytest.mark.parametrize("asked", [None, "", "0", "-5", "wide"])
def test_without_a_width_a_line_in_a_pipe_is_whole(
    monkeypatch: pytest.MonkeyPatch, asked: str | None
) -> None:
    printed = lines(monkeypatch, asked)
    assert printed[-1] == ROW[1]
    assert console().width == PIPE_WIDTH
