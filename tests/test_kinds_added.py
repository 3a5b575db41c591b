"""A finding and an alert that are not there, added in a copy as docs/dev says, are seen everywhere."""

import json
import re
import shutil
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from tests.collector.test_metric_added import ROOT, copied, python, texts

KIND = "crowded"
FINDINGS, RULE, JUDGE = (
    "analytics/vocabulary/findings.py",
    f"analytics/findings/{KIND}.py",
    "analytics/findings/judge.py",
)
ALERTS, CASES = "analytics/vocabulary/alerts.py", "service/alerts/whole_jobs.py"
HELPERS = ("seen_of_kinds.py", "service/alerts/alert_parts.py")
SENTENCE = "ann (job fit) has had 9 processes or more on GPU 0 of n1 for 10 min."


@pytest.mark.slow
def test_a_finding_and_an_alert_added_by_the_checklists_are_seen_by_every_door(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    before = copied(scratch)
    finding_added(scratch)
    assert changed(scratch, before) == {FINDINGS, RULE, JUDGE}
    with_finding = texts(scratch)
    alert_added(scratch)
    assert changed(scratch, with_finding) == {ALERTS, CASES}

    seen = looked(scratch, tmp_path)
    assert Path(seen["from"]).is_relative_to(scratch)
    assert seen["judged"] == [KIND]
    assert f"{KIND}  n1:0" in seen["cli"] and SENTENCE in seen["cli"]
    assert f"{KIND}: many processes of one job take turns on one GPU. To do: start fewer" in seen["cli"]
    ((label, tag),) = seen["page"]
    assert label == "Crowded" and "Crowded" in tag
    assert SENTENCE in seen["reports"]["my-week"]
    assert '"kinds": "Crowded"' in seen["reports"]["cluster-week"]
    assert f'fallow_findings{{kind="{KIND}"}} 1' in seen["metrics"]
    assert f'fallow_findings_gpus{{kind="{KIND}"}} 1' in seen["metrics"]

    assert f"1 {KIND} · found  ann's notebook" in seen["cli alerts"]
    assert "has many processes on one GPU" in seen["cli alerts"]
    assert "has many processes on one GPU" in seen["page alerts"]
    assert f'"{KIND}"' in seen["cli reference"], "a site can switch it off"
    assert [each.partition(":")[0] for each in seen["messages"]] == ["user", "to"]
    for message in seen["messages"]:
        assert "Fewer at a time" in message and "http://fallow/jobs?job=" in message


def finding_added(scratch: Path) -> None:
    """What "Add a finding" says to write, word by word, in the copy."""
    member, words, rule, imported, row = blocks("finding")
    inserted(scratch / FINDINGS, indent(member, "    "), behind=r'    STRAGGLER = "straggler"\n')
    inserted(scratch / FINDINGS, indent(words, "    "), behind=r"    FindingKind\.STRAGGLER: .*?\n    \),\n")
    (scratch / RULE).write_text(rule)
    inserted(scratch / JUDGE, imported, behind=r"from collections\.abc import Callable\n\n")
    inserted(scratch / JUDGE, indent(row, "    "), behind=r"    saturation\.memory_hog,\n")


def alert_added(scratch: Path) -> None:
    """The same of "Add an alert"."""
    member, words, row = blocks("alert")
    inserted(scratch / ALERTS, indent(member, "    "), behind=r'    JOB_ENDED = "job-ended"\n')
    inserted(scratch / ALERTS, indent(words, "    "), behind=r"    AlertKind\.JOB_ENDED: .*?\n    \),\n")
    inserted(
        scratch / CASES, indent(row, "    "), behind=r"    AlertKind\.RESERVED_BY_DESIGN: .*?\n    \),\n"
    )


def inserted(path: Path, block: str, *, behind: str) -> None:
    text = path.read_text()
    (place,) = re.finditer(behind, text, flags=re.DOTALL)
    path.write_text(text[: place.end()] + block + text[place.end() :])


def blocks(noun: str) -> list[str]:
    """What a checklist says to write, in its order: whole Python, and rows of a table as text."""
    checklist = (ROOT / "docs" / "dev" / f"add-{noun}.md").read_text()
    found = re.findall(r"^ *```(?:python|text)\n(.*?)^ *```", checklist, flags=re.DOTALL | re.MULTILINE)
    return [dedent(block) for block in found]


def changed(scratch: Path, before: dict[str, str]) -> set[str]:
    return {path for path, text in texts(scratch).items() if text != before.get(path)}


def looked(scratch: Path, folder: Path) -> dict[str, Any]:
    """What the copy's own doors show."""
    for name in HELPERS:
        (scratch / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / "tests" / name, scratch / "tests" / name)
    (folder / "data").mkdir()
    found: dict[str, Any] = json.loads(
        python(scratch, "-m", "tests.seen_of_kinds", str(folder / "data"), KIND)
    )
    return found
