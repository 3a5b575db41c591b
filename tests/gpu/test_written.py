"""docs/hardware.md: made of what runs wrote, and of nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.answers import at_most, told
from tests.gpu.table import STEPS
from tests.gpu.unseen import POINTS
from tests.gpu.written import main, page

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "tests" / "gpu" / "kept"
"""What runs on GPUs wrote, a file a machine; empty as long as nobody had one."""


def document(gpu: str, *rows: dict[str, Any]) -> dict[str, Any]:
    return {"at": "2026-11-25T10:00:00Z", "machine": {"GPU": gpu, "driver": "580.95"}, "steps": list(rows)}


SPUN = {
    "name": "spin",
    "verdict": "broke",
    "figures": [at_most("SM active", 0.5, 0.1), told("rung", "SM_ACTIVE")],
}


def test_the_page_in_the_docs_is_what_the_kept_files_say() -> None:
    documents = [json.loads(path.read_text()) for path in sorted(KEPT.glob("*.json"))]
    assert (ROOT / "docs" / "hardware.md").read_text() == page(documents), (
        "write it anew: python -m tests.gpu.written tests/gpu/kept/*.json > docs/hardware.md"
    )


def test_without_a_run_everything_is_unseen_with_its_command() -> None:
    found = page([])
    for step in STEPS:
        assert f"`python -m tests.gpu.run --out hardware --only {step.name}`" in found
        assert step.settles in found
    assert "no GPU was at hand" in found


def test_a_reader_with_a_gpu_is_told_what_to_type_and_what_it_costs() -> None:
    found = page([])
    first = found.index("tests.gpu.run --out hardware --only machine\n")
    assert first < found.index("--part 1") < found.index("--part 2") < found.index("## Unseen")
    for words in ("9 minutes", "hardware/gpu.json", "tests/gpu/kept", "--try-driver"):
        assert words in found, words


def test_a_second_machine_adds_a_column() -> None:
    other = document(
        "H200", {"name": "spin", "verdict": "held", "figures": [at_most("SM active", 0.05, 0.1)]}
    )
    found = page([document("H100", SPUN), other])
    assert "| figure | bar | H100, 2026-11-25 | H200, 2026-11-25 |" in found
    assert "| spin: SM active | at most 0.1 | **No**: 0.5 | 0.05 |" in found
    assert "| spin: rung |  | SM_ACTIVE | - |" in found
    assert "| driver | 580.95 | 580.95 |" in found
    assert "--only spin`" not in found, "it was seen"


def test_what_a_step_did_not_come_to_is_unseen_until_a_run_has_it() -> None:
    def ran(at: str, name: str, figure: str, value: Any, **machine: str) -> dict[str, Any]:
        row = {"name": name, "verdict": "broke", "figures": [told(figure, value)]}
        made = document("NVIDIA H100", row)
        return made | {"at": at, "machine": made["machine"] | machine}

    hand, size, gate = POINTS[4], POINTS[2], POINTS[1]
    before, after = "2026-11-26T10:56:58Z", "2026-11-27T08:00:00Z"
    cut = ran(before, "move", "hold 1024 MiB: off, a GiB", 0.5)
    assert size.settles in page([cut]) and size.settles not in page([]), "unplayed it is the step's own line"
    assert size.settles not in page([cut, ran(before, "move", "hold 16384 MiB: off, a GiB", 0.5)])
    assert gate.settles in page([ran(before, "fill", "gate, training: behind, of its own speed", 0.01)])
    assert gate.settles not in page([ran(after, "fill", "gate, training: behind, of its own speed", 0.4)])
    assert hand.settles in page([ran(after, "rights", hand.figure, "not tried on a pretend device")])
    old = ran(before, "move", "training: resume", True, driver="580.159.04")
    assert "drivers 570 and 575" in page([old])
    assert "drivers 570 and 575" not in page(
        [old, ran(before, "move", "training: resume", True, driver="575.57")]
    )


def test_every_point_that_is_unseen_belongs_to_a_step() -> None:
    assert {point.step for point in POINTS} <= {step.name for step in STEPS}


def test_what_a_machine_missed_says_why_and_what_failed_says_how() -> None:
    rows = (
        {"name": "mps_kill", "verdict": "missing", "why": "nvidia-cuda-mps-control is not installed"},
        {"name": "two", "verdict": "broke", "error": "status 1: a | b"},
    )
    found = page([document("H100", *rows)])
    assert "| nvidia-cuda-mps-control is not installed | `python -m tests.gpu.run " in found
    assert "| two | | **No**: status 1: a \\| b |" in found


def test_a_dry_run_has_no_page(tmp_path: Path, capsys: Any) -> None:
    dry = document("NVIDIA H100 80GB HBM3", SPUN)
    dry["machine"]["dry"] = True
    (tmp_path / "gpu.json").write_text(json.dumps(dry))
    assert main([str(tmp_path / "gpu.json")]) == 2
    told = capsys.readouterr()
    assert told.out == "" and "says nothing of hardware" in told.err


def test_the_command_prints_the_page(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "gpu.json").write_text(json.dumps(document("H100", SPUN)))
    assert main([str(tmp_path / "gpu.json")]) == 0
    assert capsys.readouterr().out == page([document("H100", SPUN)])
