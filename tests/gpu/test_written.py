"""docs/hardware.md: made of what runs wrote, and of nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.answers import at_most, told
from tests.gpu.table import STEPS
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
