"""Patterns and what was not judged, as the pages word them."""

import json

import pandas as pd

from analytics.vocabulary.findings import FindingKind
from service.pages.parts.unknown import table
from service.summaries.recommendations import in_short, in_words, pattern_of_job, patterns_by

NUMBERS = {
    "minutes": 1440,
    "active_ratio": 0.25,
    "utilization_active_mean_ratio": 0.6,
    "runs": 5,
    "run_median_minutes": 12.0,
    "run_longest_minutes": 90,
    "gap_longest_minutes": 240,
}


def plain(text: str | None) -> str:
    return " ".join((text or "").replace("\u202f", " ").replace("\xa0", " ").replace("\u2009", " ").split())


def test_each_pattern_names_the_numbers_that_made_it_so() -> None:
    evidence = json.dumps(NUMBERS)
    bursts = plain(in_words("analysis-bursts", evidence))
    assert bursts.startswith("Analysis in bursts: 5 runs, median 12 min, active 25")
    assert plain(in_words("gaps-between-runs", evidence)) == (
        "Gaps between runs: runs up to 1 h 30 min, gaps up to 4 h"
    )
    assert "60" in in_words("saturated", evidence)
    on_engines = in_words("steady", {**NUMBERS, "on_engines": True})
    assert on_engines == "Steady: active 25% of 1 d measured, on video engines"
    assert plain(in_words("unclear", {"minutes": 90, "active_ratio": 0.0})) == (
        "Never active in 1 h 30 min measured"
    )
    assert in_words("unclear", "{}").startswith("Not clear yet")
    assert in_words("unknown", evidence, "only 60% were measured") == "Unknown: only 60% were measured"


def test_a_job_is_told_its_own_pattern_and_an_older_store_none() -> None:
    found = pd.DataFrame(
        [{"job": "slurm:1", "kind": "steady", "evidence": json.dumps(NUMBERS), "reason": None}]
    )
    assert (pattern_of_job(found, "slurm:1") or "").startswith("Steady")
    assert pattern_of_job(found, "slurm:2") is None
    assert pattern_of_job(None, "slurm:1") is None


def test_jobs_of_one_person_are_told_together_and_stay_with_their_project() -> None:
    def row(project: str | None, kind: str, ratio: float) -> dict[str, object]:
        held = json.dumps(NUMBERS | {"active_ratio": ratio})
        return {"user_name": "ana", "project": project, "kind": kind, "evidence": held, "reason": None}

    found = pd.DataFrame(
        [row("a", "saturated", 0.9), row("a", "saturated", 0.8), row(None, "low-saturation", 0.5)]
    )
    people = pd.DataFrame({"user_name": ["ana", "ana", "bo"], "project": ["a", None, "a"]})
    first, second, third = patterns_by(found, people)
    assert plain(first) == "Saturated: 2 jobs, active 80% to 90%"
    assert (second or "").startswith("Low saturation: active")
    assert third is None
    assert patterns_by(None, people) == [None, None, None]


def test_what_was_not_judged_names_gpu_and_reason() -> None:
    found = pd.DataFrame(
        {
            "uuid": ["GPU-1"],
            "node": ["a"],
            "gpu_index": [3],
            "gpu_place": ["3"],
            "verdict": ["unknown"],
            "reason": ["only 60% of the last 30 min were measured"],
            "kinds": ["held-idle"],
            "user_name": [None],
        }
    )
    (shown,) = table(found).to_dict("records")
    assert "3" in shown["GPU"]
    assert shown["Not judged for"] == "held-idle"
    (silent,) = table(found.assign(kinds=", ".join(FindingKind))).to_dict("records")
    assert silent["Not judged for"] == "anything but its silence"
    but_one = ", ".join(list(FindingKind)[1:])
    (judged,) = table(found.assign(kinds=but_one)).to_dict("records")
    assert judged["Not judged for"] == but_one, "of one kind it is judged all the same"
    assert shown["Why"] == "only 60% of the last 30 min were measured"


def test_many_patterns_of_one_person_are_named_shortly_the_commonest_first() -> None:
    kinds = ["unknown", "saturated", "unknown", "low-saturation", "saturated", "unknown"]
    assert in_short(kinds) == "Saturated (2), Low saturation, Unknown (3)"
    assert in_short([]) is None
