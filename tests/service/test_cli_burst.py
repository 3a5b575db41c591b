"""``fallow burst`` as people type it: profile, plan, show, and what is said of nonsense."""

import json
from pathlib import Path

import pytest

from service.cli import main
from tests.advisor.burst.models import Drawn

TRAIN = """
from torch import nn

def model():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

number = 7
"""


def drawn(folder: Path) -> Path:
    path = folder / "drawn.json"
    path.write_text(Drawn(4).forked(nested=True).to_json())
    return path


def test_a_model_is_profiled_planned_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "burst_example.py").write_text(TRAIN)
    monkeypatch.chdir(tmp_path)
    words = ("burst", "profile", "burst_example:model", "--sample", "16", "--batches", "8,4,2,1")
    assert main([*words, "-o", "table.json"]) == 0
    assert "3 layers with 676 parameters, measured on cpu: table.json" in capsys.readouterr().out
    planned = ("burst", "plan", "table.json", "--gpus", "4", "--global-batch", "8", "--network", "nvswitch")
    assert main([*planned, "-o", "plan.json"]) == 0
    first = capsys.readouterr().out
    assert "8 samples a step on up to 4 GPUs, network nvswitch" in first
    assert "no plan is below" in first
    assert main(["burst", "show", "plan.json"]) == 0
    assert capsys.readouterr().out == first


def test_json_has_the_plan_and_keeps_the_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("burst", "plan", str(drawn(tmp_path)), "--gpus", "4", "--global-batch", "8", "--json")
    assert main([*words, "--amplification", "1.2", "--network", "12.5GB/s", "--no-overlap"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["predicted"]["gpu_time_us"] <= 1.2 * row["one_gpu"]["gpu_time_us"] * (1 + 1e-9)
    assert row["aim"] == "time" and row["network"] == "12.5GB/s" and row["overlap"] is False
    assert main([*words, "--slowdown", "0.5"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["aim"] == "gpu-time"


def test_lines_fit_a_terminal_of_80_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["burst", "plan", str(drawn(tmp_path)), "--gpus", "4", "--global-batch", "8"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in told[1:5]) <= 80


@pytest.mark.parametrize(
    "words, why",
    [
        (("--gpus", "0", "--global-batch", "8"), "at least one GPU"),
        (("--gpus", "4", "--global-batch", "64"), "profile it at that batch too"),
        (("--gpus", "4", "--global-batch", "8", "--network", "token-ring"), "none of nvswitch"),
        (("--gpus", "4", "--global-batch", "8", "--network", "-3"), "bandwidth is above 0"),
        (("--gpus", "4", "--global-batch", "8", "--amplification", "0.5"), "1 or more"),
        (("--gpus", "4", "--global-batch", "8", "--memory-gib", "0"), "no plan keeps to"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(
    tmp_path: Path, words: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["burst", "plan", str(drawn(tmp_path)), *words]) == 2
    assert why in capsys.readouterr().err


def test_a_file_or_model_that_makes_no_sense_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "burst_nonsense.py").write_text(TRAIN)
    (tmp_path / "empty.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    plan = ("--gpus", "2", "--global-batch", "8")
    profile = ("--sample", "16", "--batches", "2", "-o", "t.json")
    for words, why in (
        (("burst", "plan", "none.json", *plan), "No such file"),
        (("burst", "plan", "empty.json", *plan), "not a layer table"),
        (("burst", "show", "empty.json"), "not a burst plan"),
        (("burst", "profile", "burst_nonsense", *profile), "not MODULE:NAME"),
        (("burst", "profile", "burst_nonsense:nothing", *profile), "cannot be had"),
        (("burst", "profile", "burst_nonsense:number", *profile), "not a torch.nn.Module"),
        (("burst", "profile", "burst_nonsense:model", "--sample", "3", *profile[2:]), "sample of 3"),
    ):
        assert main(list(words)) == 2
        assert why in capsys.readouterr().err
