"""Why a job waits, in plain words, and sentences about who waited beside whose idle GPUs."""

import json
from pathlib import Path

import pytest

from collector.managers.model import WaitCause
from collector.managers.slurm import reasons
from service.summaries import waiting

PUBLISHED = (
    (Path(__file__).parents[1] / "collector" / "managers" / "recorded" / "slurm_22.05_reasons.txt")
    .read_text()
    .split()
)


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("Resources", "not enough is free of what it asks for"),
        ("Priority", "jobs of a higher priority are before it"),
        ("", "not said yet"),
        ("QOSMaxGRESPerUser", "QOS gold allows one person no more GPUs"),
        ("QOSGrpGRES", "QOS gold may have no more GPUs at once"),
        ("QOSMaxCpuPerUserLimit", "QOS gold allows one person no more CPUs"),
        ("AssocGrpGRES", "account vision may have no more GPUs at once"),
        ("AssocGrpGRESRunMinutes", "the GPU-minutes that account vision allows are used up"),
        ("AssocMaxJobsLimit", "account vision may have no more running jobs at once"),
        ("MaxGRESPerAccount", "QOS gold allows one account no more GPUs"),
        ("QOSMinGRES", "it asks for fewer GPUs than QOS gold allows"),
        ("QOSMaxWallDurationPerJobLimit", "its time limit is longer than QOS gold allows"),
        ("PartitionTimeLimit", "partition main allows no job of so long a time limit"),
        ("Reservation", "reservation night is not there for it yet"),
        ("ReqNodeNotAvail, UnavailableNodes:n3", "nodes that it needs are away (n3)"),
        (
            "ReqNodeNotAvail, Reserved for maintenance",
            "nodes that it needs are reserved (Reserved for maintenance)",
        ),
        (
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
            "nodes that it needs are down, drained or kept for jobs of other partitions",
        ),
        ("NextYearsWord", "NextYearsWord"),
    ],
)
def test_a_reason_is_told_in_plain_words(reason: str, told: str) -> None:
    assert waiting.why(reason, qos="gold", account="vision", partition="main", reservation="night") == told


@pytest.mark.parametrize(
    ("reason", "limit", "told"),
    [
        (
            "QOSMaxGRESPerUser",
            {"name": "small", "what": "gres/gpu", "most": 2, "used": 2},
            "QOS small allows one person no more GPUs: 2 at most, 2 in use",
        ),
        (
            "AssocGrpGRES",
            {"name": "lab", "what": "gres/gpu:h200", "most": 1200, "used": 1196},
            "account lab may have no more GPUs at once: 1,200 of h200 at most, 1,196 in use",
        ),
        (
            "AssocMaxGRESPerJob",
            {"name": "vision", "user": "ann", "what": "gres/gpu", "most": 4},
            "account vision allows ann no more GPUs in one job: 4 at most",
        ),
        (
            "AssocGrpGRESMinutes",
            {"name": "vision", "what": "gres/gpu", "most": 1000, "used": 1003},
            "the GPU-minutes that account vision allows are used up: 1,000 at most, 1,003 used",
        ),
        (
            "QOSMinGRES",
            {"name": "gold", "what": "gres/gpu", "most": 2},
            "it asks for fewer GPUs than QOS gold allows: 2 at least",
        ),
        (
            "AssocGrpMemLimit",
            {"name": "vision", "what": "mem", "most": 64000, "used": 63000},
            "account vision may have no more memory at once: 64,000 MB at most, 63,000 in use",
        ),
        (
            "AssocGrpGRES",
            {"name": "vision", "unseen": "Slurm doesn't show it"},
            "account vision may have no more GPUs at once (how much isn't known: Slurm doesn't show it)",
        ),
        (
            "AssocMaxJobsLimit",
            {"name": "vision", "user": "ann", "what": "jobs", "most": 3, "used": 3},
            "account vision allows ann no more running jobs at once: 3 at most, 3 in use",
        ),
        (
            "AssocMaxWallDurationPerJobLimit",
            {"name": "vision", "user": "ann", "what": "wall", "most": 90},
            "its time limit is longer than account vision allows ann: 1 h 30 min at most",
        ),
        (
            "QOSGrpWallLimit",
            {"name": "gold", "what": "wall", "most": 600, "used": 605},
            "the time that QOS gold allows its jobs together is used up: 10 h at most, 10 h 5 min used",
        ),
        (
            "PartitionTimeLimit",
            {"name": "short", "what": "wall", "most": 1440},
            "partition short allows no job of so long a time limit: 1 d at most",
        ),
        (
            "Licenses",
            {"name": "matlab", "what": "license:matlab", "most": 3, "used": 2},
            "a licence is not free: 3 of matlab at most, 2 in use",
        ),
        (
            "Licenses",
            {"unseen": "Slurm shows no licence flex"},
            "a licence is not free (how much isn't known: Slurm shows no licence flex)",
        ),
        ("Resources", None, "not enough is free of what it asks for"),
    ],
)
def test_a_limit_is_told_with_its_number(reason: str, limit: dict[str, object] | None, told: str) -> None:
    whole = dict.fromkeys(("most", "used")) | dict.fromkeys(("name", "user", "what", "unseen"), "")
    row = {"reason": reason, "qos": "gold", "project": "vision", "partition": "main", "reservation": ""}
    row["limit_met"] = None if limit is None else json.dumps(whole | limit)
    assert waiting.why_of(row) == told


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"cause": "dependency"}, "another job"),
        ({"cause": "other", "reason": "Licenses"}, "a licence is not free"),
        (
            {
                "cause": "other",
                "reason": "Licenses",
                "limit_met": {"name": "matlab", "what": "license:matlab", "most": 3},
            },
            "a licence is not free: 3 of matlab at most",
        ),
        ({"cause": "limit", "reason": "QOSGrpGRES", "qos": "gold"}, "QOS gold may have no more GPUs at once"),
        (
            {
                "cause": "limit",
                "reason": "AssocMaxJobsLimit",
                "account": "vision",
                "limit_met": {"name": "vision", "user": "one person", "what": "jobs", "most": 3},
            },
            "account vision allows one person no more running jobs at once: 3 at most",
        ),
    ],
)
def test_of_the_past_a_limit_and_a_licence_are_told_too(row: dict[str, object], told: str) -> None:
    whole = dict.fromkeys(("reason", "qos", "account", "limit_met")) | row
    if whole["limit_met"]:
        unset = {"most": None, "used": None, "name": "", "user": "", "what": "", "unseen": ""}
        whole["limit_met"] = json.dumps(unset | whole["limit_met"])  # type: ignore[operator]
    assert waiting.why_of_past(whole) == told  # type: ignore[arg-type]


def test_every_published_limit_has_words() -> None:
    limits = [each for each in PUBLISHED if each.startswith(("QOS", "Assoc", "Max"))]
    assert len(limits) > 100
    assert not [each for each in limits if waiting.why(each) == each]


def test_every_cause_has_words() -> None:
    assert set(waiting.CAUSES) == set(WaitCause)


def test_slurms_own_words_are_the_readers() -> None:
    assert (waiting.AWAY, waiting.PROSE) == (reasons.AWAY, reasons.PROSE)


def test_sentences_say_who_waited_and_who_held() -> None:
    sums = {"waited_gpu_hours": 12.0, "beside_idle_gpu_hours": 8.5, "beside_free_gpu_hours": 1.0}
    assert waiting.headline([sums]) == (
        "Jobs waited 12.0 GPU-hours for GPUs. For 8.5 GPU-hours of them others held GPUs of that "
        "kind and left them idle. For 1.0 GPU-hours GPUs of that kind were held by nobody."
    )
    assert waiting.headline([]) == "No job waited for GPUs in this time."
    none = sums | {"beside_idle_gpu_hours": 0.0, "beside_free_gpu_hours": 0.0}
    assert waiting.headline([none]).endswith("No GPU of that kind was idle meanwhile.")
    holders = [{"key": name, "beside_gpu_hours": 2.0} for name in ("ann", None, "cy", "di")]
    assert waiting.held_idle(holders) == (
        "The idle ones were held by ann (2.0 GPU-hours), somebody unknown (2.0 GPU-hours), "
        "cy (2.0 GPU-hours) and 1 other."
    )
    assert waiting.held_idle([]) is None


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (
            {"why": "reserved", "detail": "reservation night of account vision"},
            "reservation night of account vision",
        ),
        (
            {"why": "limit", "detail": "QOSGrpGRES", "qos": "gold"},
            "a limit: QOS gold may have no more GPUs at once",
        ),
        ({"why": "drained", "detail": "bad DIMM"}, "the node was drained: bad DIMM"),
        ({"why": "nobody"}, "nothing: no job waited for them"),
    ],
)
def test_what_kept_free_gpus_is_named(row: dict[str, str], told: str) -> None:
    assert waiting.kept_by({"detail": None, "qos": None, "account": None, **row}) == told
