"""The script for the first half hour on a GPU: its table, how it ends steps, and its file."""

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import place, run, strangers, torch_names
from tests.gpu.answers import at_most, near, told, verdict_of
from tests.gpu.driven import handed_over
from tests.gpu.steps.idle import dmon_cells
from tests.gpu.steps.nccl import two_of_one_gpu
from tests.gpu.table import BUDGET_S, NAMES, PARTS, SEES, STEPS, Step, step_named

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[2]
NOTHING = dict(os.environ, PYTHONPATH=str(ROOT))
MOST_LINES = 150


def made(name: str, limit_s: int = 20, *, restores: bool = False) -> Step:
    return Step(name=name, part=1, limit_s=limit_s, section=SEES, settles="nothing", restores=restores)


def played(
    folder: Path, scripts: dict[str, str], *steps: Step, budget_s: float = 60.0, dry: bool = False
) -> dict[str, Any]:
    """Steps that are one script each."""

    def command(step: Step) -> Sequence[str]:
        return (sys.executable, "-c", scripts[step.name])

    return run.run(steps, folder / "gpu.json", NOTHING, budget_s, dry=dry, command_of=command)


def says(**answer: object) -> str:
    return f"import json; print({json.dumps(answer)!r})"


def test_every_step_has_its_module_and_every_module_its_step() -> None:
    modules = {path.stem for path in (ROOT / "tests" / "gpu" / "steps").glob("*.py")}
    assert modules == set(NAMES) and len(NAMES) == len(set(NAMES))


@pytest.mark.parametrize(
    "path", sorted((ROOT / "tests" / "gpu" / "steps").glob("*.py")), ids=lambda p: p.stem
)
def test_a_step_can_be_read_in_one_go(path: Path) -> None:
    assert len(path.read_text().splitlines()) < MOST_LINES


@pytest.mark.parametrize("part", PARTS)
def test_a_part_fits_into_nine_minutes(part: int) -> None:
    assert sum(step.limit_s for step in STEPS if step.part == part) <= BUDGET_S


def test_an_unknown_step_is_named_with_those_that_there_are() -> None:
    with pytest.raises(KeyError, match="no step is named 'spn'; there are machine, idle"):
        step_named("spn")


def test_what_was_not_measured_meets_no_bar() -> None:
    assert verdict_of([near("a", 1.02, 1.0, 0.03), told("b", None)]) == "held"
    assert verdict_of([near("a", None, 1.0, 0.03)]) == "broke"
    assert verdict_of([at_most("a", 2.0, 1.0)]) == "broke"


def test_the_file_is_written_anew_after_each_step_and_a_later_part_keeps_the_first(tmp_path: Path) -> None:
    first, second = made("one"), made("two")
    path = str(tmp_path / "gpu.json")
    peek = f"import json; print(json.dumps({{'figures': [], 'before': open({path!r}).read()}}))"
    found = played(
        tmp_path,
        {"one": says(figures=[at_most("a", 1, 2)], facts={"GPU": "H100"}), "two": peek},
        first,
        second,
    )
    assert json.loads(found["steps"][1]["before"])["steps"][0]["verdict"] == "held"
    again = played(tmp_path, {"two": says(missing="no MPS here")}, second)
    assert again["machine"] == {"GPU": "H100"}
    assert [(row["name"], row["verdict"]) for row in again["steps"]] == [("one", "held"), ("two", "missing")]
    assert json.loads((tmp_path / "gpu.json").read_text()) == again


def test_a_step_that_fails_leaves_its_error_and_its_last_40_lines(tmp_path: Path) -> None:
    script = "import sys\nfor i in range(100): print('line', i, file=sys.stderr)\nraise ValueError('torn')"
    found = played(tmp_path, {"one": script, "two": says(figures=[])}, made("one"), made("two"))
    row, after = found["steps"]
    assert row["verdict"] == "broke" and row["error"] == "status 1: ValueError: torn"
    assert len(row["tail"]) == 40 and "line 99" in row["tail"]
    assert after["verdict"] == "held", "the rest goes on"


def test_nothing_is_started_that_does_not_fit_into_what_is_left(tmp_path: Path) -> None:
    found = played(tmp_path, {"short": says(figures=[])}, made("long", 50), made("short", 5), budget_s=20)
    assert [row["verdict"] for row in found["steps"]] == ["no time", "held"]


def test_a_dry_step_may_use_what_time_is_left(tmp_path: Path) -> None:
    scripts = {"one": says(figures=[]), "two": says(figures=[])}
    found = played(tmp_path, scripts, made("one"), made("two"), budget_s=20, dry=True)
    assert [row["verdict"] for row in found["steps"]] == ["held", "held"]


ENDS_BY_PIPE = "import sys; sys.stdin.read()"
ENDS_BY_TERM = "import time; time.sleep(600)"
ENDS_BY_KILL = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


@pytest.mark.parametrize(
    ("script", "how"),
    [(ENDS_BY_PIPE, "its pipe"), (ENDS_BY_TERM, "SIGTERM"), (ENDS_BY_KILL, "SIGKILL")],
    ids=["pipe", "SIGTERM", "SIGKILL"],
)
def test_a_step_over_its_limit_is_ended_as_gently_as_it_lets_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, how: str
) -> None:
    monkeypatch.setattr(run, "GRACE_S", 1.0)
    found = played(tmp_path, {"one": script, "two": says(figures=[])}, made("one", 1), made("two"))
    assert found["steps"][0]["error"] == f"over its limit of 1 s: ended by {how}"
    assert found["steps"][1]["verdict"] == "held"


def test_where_cuda_restores_processes_nothing_is_killed_and_the_run_ends_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "GRACE_S", 0.5)
    script = f"import os; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n{ENDS_BY_KILL}"
    found = played(tmp_path, {"one": script}, made("one", 3, restores=True), made("two", 1))
    pid = int((tmp_path / "pid").read_text())
    os.kill(pid, 0)
    os.killpg(pid, signal.SIGKILL)
    assert "is not killed where CUDA restores" in found["steps"][0]["error"]
    assert found["steps"][1]["why"] == "a step before it did not end"


def test_a_load_that_outlives_its_step_is_ended_with_its_group(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys, json\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        "print(json.dumps({'figures': [], 'pid': child.pid}))"
    )
    pid = played(tmp_path, {"one": script}, made("one"))["steps"][0]["pid"]
    until_s = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]:
        assert time.monotonic() < until_s
        time.sleep(0.05)


def test_the_table_at_the_end_fits_a_screen_and_keeps_what_broke(tmp_path: Path) -> None:
    rows = [
        {"name": step.name, "verdict": "held", "figures": [at_most(f"f{i}", i, 3) for i in range(5)]}
        for step in STEPS
    ]
    lines = run.table({"steps": rows}, STEPS)
    assert len(lines) <= 60 and sum(" NO " in line for line in lines) == len(STEPS)


def test_a_name_that_this_torch_lacks_is_told() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    assert torch_names.absent(torch_names.used()) == ()
    names = ("torch.nn.Linear", "torch.nothing.here", "torch.distributed.Nobody", "torch.nn.utils.nowhere")
    assert torch_names.absent(names) == names[2:3] + names[3:] + names[1:2]


def test_a_driver_that_nobody_tried_is_tried_only_where_that_was_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strangers, "driver_version", lambda: "590.44.01")
    assert 590 not in strangers.checkpointer().host().drivers
    monkeypatch.setenv(place.TRY_DRIVER, "1")
    assert 590 in strangers.checkpointer().host().drivers


def test_a_hand_over_is_rated_by_the_pause_before_the_first_step_of_two_and_by_what_came() -> None:
    def rows(given: list[float]) -> list[dict[str, Any]]:
        older, younger = {"pid": 1}, {"pid": 2, "world": 2}
        return [
            older | {"world": 1, "at_s": 1.0, "state": [7.0, 7.0]},
            older | {"world": 1, "at_s": 1.1},
            older | {"world": 2, "at_s": 1.6},
            younger | {"at_s": 1.6, "state": given},
        ]

    pause, rate, whole = handed_over(rows([7.0, 7.0]), 1024)
    assert pause["value"] == pytest.approx(0.5)
    assert rate["value"] == pytest.approx(2.147483648), "2^30 bytes in half a second"
    assert whole["held"]
    assert not handed_over(rows([0.0, 7.0]), 1024)[2]["held"], "some of it never came"


def test_cells_of_nvidia_smi_are_those_of_the_last_row() -> None:
    text = "# gpu pwr gtemp gract smutil\n# Idx W C GPM:% GPM:%\n    0 69 30 0.10 0.20\n    0 70 30 12.50 -\n"
    assert dmon_cells(text, 2) == [12.5, None]
    assert dmon_cells("GPM metrics are not supported\n", 5) is None
    assert dmon_cells("", 2) is None


def test_two_ranks_on_one_gpu_are_tried_where_nccl_lets_them() -> None:
    asked: list[tuple[str, dict[str, str]]] = []

    def play(devices: str, environment: dict[str, str]) -> list[dict[str, Any]]:
        asked.append((devices, environment))
        raise RuntimeError("Duplicate GPU detected")

    (figure,) = two_of_one_gpu((2, 28, 9), play)
    assert "NCCL 2.28.9" in figure["value"] and asked == []
    (figure,) = two_of_one_gpu((2, 30, 1), play)
    assert "Duplicate GPU" in figure["value"]
    assert asked == [("0,0", {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "FALLOW_BACKEND": "nccl"})]
