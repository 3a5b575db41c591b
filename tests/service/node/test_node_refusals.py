"""A node that could push nothing that counts does not begin."""

from pathlib import Path

import pytest

from service.cli import main


def test_invented_gpus_are_pushed_to_no_head(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "node",
        "--head",
        "http://127.0.0.1:1",
        "--source",
        "simulated",
        "--data",
        str(tmp_path / "data"),
    ]
    assert main(words) == 2
    assert "a node pushes what it measures" in capsys.readouterr().err


def test_without_a_head_it_says_where_to_name_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node", "--data", str(tmp_path / "data")]) == 2
    assert "give the head's address" in capsys.readouterr().err
