"""Who is rarely used is shown so in and between its bursts; its state of one tick would flicker.

A world of two hours, a sample a minute, whose findings are given; what is expected was counted by hand.
"""

from datetime import UTC, datetime, timedelta

import pytest

from analytics.query import run
from collector.arrow import HeldInterval
from collector.store.judgements import Judgement
from tests.collector.store.store_parts import T0, at_path, held, history, sample, uuid
from tests.stores import open_store

MINUTE_MS = 60_000
LAST = 120
BEGIN = datetime.fromtimestamp(T0 / 1000, UTC).replace(tzinfo=None)
IN_A_BURST, BETWEEN, SHARED, OF_ANOTHER, SILENT, OTHER_KIND, EMPTY, ALL_RARE = range(8)
Rows = dict[str, dict[str, object]]


def rare(number: int, job: str, *, window_from: int = 0, kind: str = "rarely-used") -> dict[str, object]:
    return {
        "kind": kind,
        "uuid": uuid(number),
        "job": f"slurm:{job}",
        "window_from_ms": T0 + window_from * MINUTE_MS,
        "window_to_ms": T0 + LAST * MINUTE_MS,
        "coverage": 1.0,
        "rung": 3,
        "wasted_gpu_hours": 1.0,
        "sentence": "It is used now and then.",
    }


FINDINGS = (
    rare(IN_A_BURST, "burst"),
    rare(BETWEEN, "between", window_from=100),
    rare(SHARED, "one"),
    rare(OF_ANOTHER, "gone"),
    rare(SILENT, "silent"),
    rare(OTHER_KIND, "idle", kind="held-idle"),
    rare(EMPTY, "empty"),
    rare(ALL_RARE, "x", window_from=10),
    rare(ALL_RARE, "y", window_from=40),
)


def interval(
    number: int, job: str, to: int | None = None, share: float = 1.0, begins: int = 0
) -> HeldInterval:
    to_ms = None if to is None else T0 + to * MINUTE_MS
    return HeldInterval(allocation=held(number, job, share), from_ms=T0 + begins * MINUTE_MS, to_ms=to_ms)


HELD = (
    interval(IN_A_BURST, "burst"),
    interval(BETWEEN, "between"),
    interval(SHARED, "one", share=0.5),
    interval(SHARED, "two", share=0.5),
    interval(OF_ANOTHER, "gone", to=60),
    interval(OF_ANOTHER, "came", begins=60),
    interval(SILENT, "silent"),
    interval(OTHER_KIND, "idle"),
    interval(EMPTY, "empty"),
    interval(ALL_RARE, "x", share=0.5),
    interval(ALL_RARE, "y", share=0.5),
)


@pytest.fixture(scope="module", params=[70, LAST], ids=["judged-50-min-ago", "judged-now"])
def seen(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> tuple[Rows, int]:
    """The rows, and the minute in which it was found."""
    return asked(tmp_path_factory, judged_at=request.param)[0], request.param


def asked(folders: pytest.TempPathFactory, judged_at: int) -> tuple[Rows, dict[str, object]]:
    told = [
        sample(
            number,
            T0 + minute * MINUTE_MS,
            0.6 if minute == LAST and number == IN_A_BURST else 0.0,
            width_ms=MINUTE_MS,
            process_count=int(number != EMPTY),
        )
        for number in range(8)
        for minute in range(1, LAST + 1)
        if number != SILENT or minute < 60
    ]
    with open_store(at_path(folders.mktemp("rhythm"))) as store:
        store.write_history(history(told, HELD))
        store.write_judgement(Judgement(findings=FINDINGS), T0 + judged_at * MINUTE_MS)
        with store.reader() as reader:
            (cluster,) = run(reader, "cluster_now", {}).to_pylist()
            return {row["uuid"]: row for row in run(reader, "gpus_now", {}).to_pylist()}, cluster


@pytest.mark.parametrize(
    ("number", "state", "rhythm", "since"),
    [
        (IN_A_BURST, "good", "rarely-used", 0),
        (BETWEEN, "held-idle", "rarely-used", 100),  # or when it was found, if that is earlier
        (SHARED, "held-idle", None, None),  # of one of the two nothing is known
        (OF_ANOTHER, "held-idle", None, None),  # what was found was found of who held it before
        (SILENT, "unknown", None, None),
        (OTHER_KIND, "held-idle", None, None),
        (EMPTY, "allocated-empty", "rarely-used", 0),  # scaled to zero between two requests
        (ALL_RARE, "held-idle", "rarely-used", 40),  # both are so since 40
    ],
)
def test_a_rhythm_is_of_all_who_hold_a_gpu_now(
    seen: tuple[Rows, int], number: int, state: str, rhythm: str | None, since: int | None
) -> None:
    rows, judged_at = seen
    row = rows[uuid(number)]
    at = None if since is None else BEGIN + timedelta(minutes=min(since, judged_at))
    assert (row["state"], row["rhythm"], row["rhythm_since"]) == (state, rhythm, at)


def test_what_was_judged_over_an_hour_ago_is_no_rhythm_of_now(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    rows, cluster = asked(tmp_path_factory, judged_at=59)
    assert {row["rhythm"] for row in rows.values()} == {None}
    assert (cluster["idle_held_gpus"], cluster["rarely_used_gpus"]) == (6.0, 0.0)


def test_the_cluster_counts_it_apart_from_what_does_nothing(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    _, cluster = asked(tmp_path_factory, judged_at=LAST)
    # four are rarely used; shared, of another and idle do nothing; one is silent
    assert (cluster["held_gpus"], cluster["rarely_used_gpus"], cluster["idle_held_gpus"]) == (8.0, 4.0, 3.0)
    assert cluster["unknown_gpus"] == 1.0
