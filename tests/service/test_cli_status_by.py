"""``fallow status --by``: who holds how much now and lets it idle; sums by hand."""

from datetime import UTC, datetime
from typing import Any

import pytest

from service import wording
from service.cli.parser import parse
from service.cli.status import copying_lines, gpus_table
from service.cli.status_by import Part, parts_of, parts_table, record_of
from service.summaries import waiting
from tests.service.test_keys_are_whole import printed

GIB = 1 << 30


def gpu(node: str, state: str, user: str | None = None, busy: float | None = 0.0, **more: Any) -> Any:
    job = None if user is None else f"slurm:{user}"
    row = {"node": node, "state": state, "user_name": user, "project": user and "lab", "job": job}
    row |= {"memory_total_bytes": 80 * GIB, "job_name": None, "state_reason": None}
    measured = {
        "utilization_ratio": busy,
        "engines_ratio": None,
        "memory_used_bytes": 10 * GIB,
        "power_w": 100.0,
    }
    return row | measured | more


GPUS = [
    gpu("n1", "held-idle", "ana"),
    gpu("n1", "allocated-empty", "ana", memory_used_bytes=0, power_w=60.0),
    gpu("n1", "good", "bo", 0.75),
    gpu("n2", "good", "ana", 0.0, engines_ratio=0.5),
    gpu("n2", "suspect", "bo", 1.0),
    gpu("n2", "unknown", "cy", None, memory_used_bytes=None, power_w=None),
    gpu("n2", "free", memory_used_bytes=0, power_w=50.0),
    gpu("n3", "good", "ana, bo", 0.5),
    gpu("n3", "held-idle", None, job="pod:x"),
]


def numbers(part: Part) -> tuple[object, ...]:
    return (part.key, part.held, part.gpus, part.idle, part.used_gpus, part.doubted)


def test_by_user_the_most_idle_first_and_nobody_last() -> None:
    assert [numbers(each) for each in parts_of(GPUS, "user")] == [
        ("ana", 3, 3, 2, 0.5, 0),  # one of three works, on its video engines
        (None, 1, 1, 1, 0.0, 0),  # somebody of whom no name is known
        ("bo", 2, 2, 0, 0.75, 1),  # of the suspect one nothing is counted
        ("ana, bo", 1, 1, 0, 0.5, 0),
        ("cy", 1, 1, 0, 0.0, 1),
        (None, 0, 1, 0, 0.0, 0),
    ]


def test_by_node_counts_what_is_held_there() -> None:
    assert [numbers(each) for each in parts_of(GPUS, "node")] == [
        ("n1", 3, 3, 2, 0.75, 0),
        ("n3", 2, 2, 1, 0.5, 0),
        ("n2", 3, 4, 0, 0.5, 2),
    ]


def test_jobs_that_share_a_gpu_are_each_counted() -> None:
    (part,) = parts_of(
        [gpu("n1", "good", "ana, bo", 0.5, job="pod:a, pod:b"), gpu("n1", "good", "cy")], "node"
    )
    assert part.jobs == ("pod:a", "pod:b", "slurm:cy")


def test_by_project_unnamed_holders_are_not_nobody() -> None:
    told = [(each.key, each.held, each.gpus) for each in parts_of(GPUS, "project")]
    assert told == [("lab", 7, 7), (None, 1, 1), (None, 0, 1)]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_key_and_no_number_is_cut(width: int) -> None:
    long = [gpu("n1", "held-idle", f"a-person-with-a-very-long-name-{n}") for n in range(2)]
    shown = printed(parts_table(parts_of(long, "user"), "user", width=width), width)
    assert "a-person-with-a-very-long-name-0" in shown and "a-person-with-a-very-long-name-1" in shown
    assert "…" not in shown


def test_it_tells_nobody_from_somebody_unknown() -> None:
    shown = printed(parts_table(parts_of(GPUS, "user"), "user", width=100), 100)
    assert "(not known)" in shown and "(nobody)" in shown


def test_a_record_has_its_key_and_plain_numbers() -> None:
    (first, *_) = parts_of(GPUS, "user")
    assert record_of(first, "user") == {
        "user": "ana",
        "gpus": 3,
        "held_gpus": 3,
        "idle_held_gpus": 2,
        "used_gpus": 0.5,
        "unknown_gpus": 0,
        "memory_used_bytes": 20 * GIB,
        "power_w": 260.0,
        "jobs": ["slurm:ana"],
    }


def test_it_is_typed_with_watch() -> None:
    flags = parse(["status", "--by", "user", "--watch"]).flags
    assert (flags.by, flags.watch) == ("user", True)


def test_status_says_what_a_gpu_does_that_copies_and_shows_no_use() -> None:
    copies = gpu("n1", "low-saturation", "ana", gpu_place="1", uuid="GPU-1", copies_ratio=0.3)
    of_an_older_service = gpu("n1", "low-saturation", "ana", gpu_place="2", uuid="GPU-2")
    lines = [
        str(line) for line in copying_lines([copies, copies | {"copies_ratio": None}, of_an_older_service])
    ]
    assert lines == ["n1:1 copies, does not compute: its memory is read or written 30% of the time"]


def test_a_rarely_used_gpu_is_shown_alike_in_and_between_its_bursts() -> None:
    at = datetime(2026, 11, 26, 20, tzinfo=UTC)
    found = {"rhythm": "rarely-used", "rhythm_since": "2026-11-25T20:00:00Z", "state_since": None}
    for state, busy in (("good", 0.8), ("held-idle", 0.0), ("allocated-empty", 0.0)):
        row = gpu("n1", state, "ana", busy, gpu_place="1", uuid="GPU-1", rung=3, **found)
        (_, line) = printed(gpus_table([row], at, width=100), 100).splitlines()[-2:]
        assert "rarely-used" in line and "≥24 h" in line and state not in line, line
        (part,) = parts_of([row], "user")
        assert (part.gpus, part.idle) == (1, 0)
        assert waiting.unused([row]) is None


def test_an_older_service_tells_no_rhythm_and_its_states_stand() -> None:
    row = gpu("n1", "held-idle", "ana", gpu_place="1", uuid="GPU-1", state_since=None, rung=3)
    assert "held-idle" in printed(gpus_table([row], datetime(2026, 11, 26, 20, tzinfo=UTC), width=100), 100)
    assert wording.state_label("held-idle", None) == "held, idle"
    assert wording.state_label("good", "rarely-used") == "rarely used"
    assert wording.state_coloured("good", "rarely-used") == "low-saturation"
