"""GPU-hours that accounting tells of, on a node that is measured, of runs that no sample names.

Expected by hand, before the query: node n0 has four GPUs, measured from hour 0 to 10. A run has its GPUs of
n0 from hour 2 to 6 unless said. What somebody holds already is in the ledger's sums, to be counted once.
In the store each case has a node and job numbers of its own.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from analytics.query import run
from collector.arrow import HeldInterval
from collector.managers.slurm.sacct_text import AccountedRun
from collector.model import JobId, NodeName
from collector.store.database import Store
from service.cli.asking import unknown_names
from service.summaries import accounted
from tests.collector.store.store_parts import T0, TICK_MS, at_path, gpu, history, sample, uuid
from tests.collector.store.test_accounted_users import HOUR_MS, held, ran
from tests.stores import open_store

if TYPE_CHECKING:
    from service.client import Client

GPUS = 4


def of(user: str | None, gpus: int, from_h: float = 2, to_h: float = 6, **more: object) -> AccountedRun:
    number = str(more.pop("number", 1))
    nodes = more.pop("nodes", ("n0",))
    assert isinstance(nodes, tuple)
    shown = str(more.pop("shown_id", number))
    return replace(ran(user, from_h, to_h, nodes, number=number), gpus=gpus, shown_id=shown)


def holds(
    gpus: Sequence[int], user: str | None, job: str, from_h: float = 2, to_h: float = 6
) -> list[HeldInterval]:
    return [held(from_h, to_h, each, user, job) for each in gpus]


ANN = [of("ann", 2)]
LATE = [*holds((0, 1), "ann", "slurm:1", 2.08, 6.1)]
CASES: dict[str, tuple[Sequence[HeldInterval], Sequence[AccountedRun], dict[str | None, float]]] = {
    "no sample names it": ([], ANN, {"ann": 8}),
    "its number is named": (holds((0, 1), "ann", "slurm:1"), ANN, {}),
    "its number is named, and nobody's": (holds((0, 1), None, "slurm:1"), [of(None, 2)], {}),
    "half of its GPUs are named": (holds((0,), "ann", "slurm:1"), ANN, {"ann": 4}),
    "labels that come and go five minutes late": (LATE, ANN, {}),
    # ten minutes more are taken for its own: a scrape or two
    "half of its time is named": (holds((0, 1), "ann", "slurm:1", 2, 4), ANN, {"ann": 2 * (2 - 1 / 6)}),
    "her processes hold them, without a number": (holds((0, 1), "ann", "pid:n0/7"), ANN, {}),
    "another's processes hold two others": (holds((0, 1), "bob", "pid:n0/7"), ANN, {"ann": 8}),
    "another holds all": (holds((0, 1, 2, 3), "bob", "pid:n0/7"), ANN, {}),
    "another holds all but one": (holds((0, 1, 2), "bob", "pid:n0/7"), ANN, {"ann": 4}),
    "somebody holds two, it may be she": (holds((0, 1), None, "pod:x"), ANN, {}),
    "her other job holds two, another's none": (
        holds((0, 1), "ann", "pid:n0/7"),
        [*ANN, of("bob", 1, number=2)],
        {"bob": 4},
    ),
    "another run of hers is named": (
        holds((0, 1), "ann", "slurm:2"),
        [*ANN, of("ann", 2, number=2)],
        {"ann": 8},
    ),
    "somebody's under another job's number": (holds((0, 1, 2), None, "slurm:9"), ANN, {"ann": 4}),
    "hers under another job's number": (holds((0, 1), "ann", "slurm:9"), ANN, {"ann": 8}),
    "its label tells what people call it": (
        holds((0, 1), None, "slurm:8+1"),
        [of("ann", 2, number=9, shown_id="8+1"), of("bob", 1, number=2)],
        {"bob": 4},
    ),
    "its label may tell its array's number alone": (
        holds((0, 1), None, "slurm:8"),
        [of("ann", 2, number=9, shown_id="8_2")],
        {},
    ),
    # of three runs two are named in part: 777 never, 401 from hour 2 to 3 and 5 to 6, 200+1 throughout
    "a number, a hole, a part of a job": (
        [
            *holds((0,), None, "slurm:99", 0, 10),
            *holds((1,), None, "slurm:20+1", 0, 10),
            *holds((2,), "hol", "slurm:40", 0, 3),
            *holds((2,), "hol", "slurm:40", 5, 10),
        ],
        [
            of("wil", 1, number=77),
            of("hol", 1, 0, 10, number=40),
            of("zed", 1, 0, 10, number=21, shown_id="20+1"),
        ],
        {"wil": 4, "hol": 2 - 2 / 6},
    ),
    "it began before the node was measured": ([], [of("ann", 2, -2)], {"ann": 2 * 2 + 2 * 6}),
    "more than the node has": ([], [of("ann", 3), of("bob", 3, number=2)], {"ann": 8, "bob": 8}),
    "one after the other": ([], [of("ann", 4, 2, 4), of("bob", 4, 4, 5, number=2)], {"ann": 8, "bob": 4}),
    "on a node that is not measured": ([], [of("ann", 2, nodes=("m0",))], {"ann": 8}),
    "on that and another": ([], [of("ann", 4, nodes=("n0", "m0"))], {"ann": 16}),
    "nobody says on which node": ([], [of("ann", 2, nodes=())], {}),
    "of nobody that is named": ([], [of(None, 2)], {None: 8}),
}


def _moved(case: int, name: str) -> str:
    """A node or job of a case, apart from those of the others: n0 as c7, slurm:1 as slurm:7001."""
    manager, _, number = name.rpartition(":")
    if manager == "slurm":
        return f"slurm:{case}00{number}"
    return (
        name.replace("n0", f"c{case}")
        if manager
        else name.replace("n0", f"c{case}").replace("m0", f"m{case}")
    )


def _interval(case: int, interval: HeldInterval) -> HeldInterval:
    told = interval.allocation
    number = int(told.uuid.removeprefix("GPU-"))
    holder = replace(told.holder, job=JobId(_moved(case, told.holder.job)))
    return replace(interval, allocation=replace(told, uuid=uuid(case * GPUS + number), holder=holder))


def _run(case: int, told: AccountedRun) -> AccountedRun:
    nodes = tuple(_moved(case, node) for node in told.nodes)
    return replace(told, number=f"{case}00{told.number}", shown_id=f"{case}00{told.shown_id}", nodes=nodes)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    cases = list(enumerate(CASES.values(), start=1))
    numbers = [case * GPUS + place for case, _ in cases for place in range(GPUS)]
    samples = [
        sample(number, T0 + step * HOUR_MS + (TICK_MS if not step else 0), width_ms=TICK_MS)
        for step in (0, 10)
        for number in numbers
    ]
    intervals = [_interval(case, each) for case, (given, _, _) in cases for each in given]
    gpus = tuple(gpu(number, node=NodeName(f"c{number // GPUS}"), index=number % GPUS) for number in numbers)
    with open_store(at_path(tmp_path_factory.mktemp("unnamed"))) as filled:
        filled.write_history(replace(history(samples, intervals), gpus=gpus))
        filled.write_accounted("slurm", [_run(case, each) for case, (_, runs, _) in cases for each in runs])
        yield filled


def use(store: Store, from_h: float, to_h: float, **more: object) -> list[dict[str, Any]]:
    window = {"from_ts": T0 + round(from_h * HOUR_MS), "to_ts": T0 + round(to_h * HOUR_MS)}
    with store.reader() as reader:
        rows: list[dict[str, Any]] = run(reader, "accounted_use", {**window, **more}).to_pylist()
    return rows


@pytest.fixture(scope="module")
def by_job(store: Store) -> dict[str, float]:
    return {row["key"]: row["gpu_hours"] for row in use(store, -12, 10, by="job") if row["gpu_hours"]}


@pytest.mark.parametrize(("case", "name"), list(enumerate(CASES, start=1)))
def test_hours_of_runs_that_no_sample_names_are_counted_once(
    by_job: dict[str, float], case: int, name: str
) -> None:
    _, runs, expected = CASES[name]
    counted = {each.user: by_job[job] for each in runs if (job := f"slurm:{case}00{each.number}") in by_job}
    assert counted == {user: pytest.approx(gpu_hours, abs=0.01) for user, gpu_hours in expected.items()}


UNCOUNTED: dict[str, dict[str | None, float]] = {
    "another holds all": {"ann": 8},
    "another holds all but one": {"ann": 4},
    "somebody's under another job's number": {"ann": 4},
    "somebody holds two, it may be she": {"ann": 8},
    "its label may tell its array's number alone": {"ann": 8},
    # 6 GPUs of 4
    "more than the node has": {"ann": 4, "bob": 4},
}


def test_what_such_runs_are_said_to_have_had_more_is_told(store: Store) -> None:
    rows = {row["key"]: row["uncounted_gpu_hours"] for row in use(store, -12, 10, by="job")}
    for case, (name, (_, runs, _)) in enumerate(CASES.items(), start=1):
        told = {each.user: rows.get(f"slurm:{case}00{each.number}", 0.0) for each in runs}
        expected = UNCOUNTED.get(name, {})
        assert {who: round(hours, 2) for who, hours in told.items() if hours > 0.01} == expected, name


def test_a_range_that_cuts_a_run_has_its_part_and_says_how_much_is_beside_the_ledger(store: Store) -> None:
    """From hour -1 to 3 of a run on 2 GPUs: 2 before the node was measured, and 6 beside the ledger."""
    case = list(CASES).index("it began before the node was measured") + 1
    (row,) = use(store, -1, 3, by="user", node=f"c{case}")
    assert (row["key"], round(row["gpu_hours"], 2), round(row["beside_gpu_hours"], 2)) == ("ann", 8.0, 6.0)
    case = list(CASES).index("more than the node has") + 1
    (row,) = use(store, 3, 5, by="user", node=f"c{case}", user="bob")
    assert round(row["gpu_hours"], 2) == 4.0, "of 4 GPUs in 2 h, her part is cut though only he is asked for"


def given(who: str | None, hours: float, beside: float, uncounted: float = 0.0) -> dict[str, Any]:
    return {"key": who, "gpu_hours": hours, "beside_gpu_hours": beside, "uncounted_gpu_hours": uncounted}


def test_whose_they_are_is_said_in_a_sentence() -> None:
    rows = [
        given(who, hours, hours)
        for who, hours in (("ann", 8.0), ("bob", 2.5), (None, 1.0), ("cy", 1.0), ("di", 0.5), ("ed", 0.0))
    ]
    assert accounted.left_out(rows) == (
        "By imported accounting 13.0 GPU-hours more were given out (ann 8.0, bob 2.5, cy 1.0 and 1 other), "
        "in runs that no sample names: nobody knows what was made of them, and they are in no sum here."
    )
    assert accounted.left_out([]) is None and accounted.left_out([given("ann", 0.0, 0.0)]) is None
    before = given("ann", 8.0, 0.0)
    assert "are of runs that no sample names" in accounted.told([rows[0] | ROW])
    assert "no sample" not in accounted.told([before | ROW])


def test_a_head_says_what_was_never_measured_too() -> None:
    """Jo's node was never measured; ken's and ivan's runs no sample names."""
    jo, ken, ivan = given("jo", 20.0, 0.0), given("ken", 17.8, 17.8), given("ivan", 2.2, 2.2)
    assert accounted.left_out([jo]) == (
        "By imported accounting 20.0 GPU-hours more were given out (jo 20.0), where or when nothing was "
        "measured: they are in no sum here."
    )
    assert accounted.left_out([jo, ken, ivan]) == (
        "By imported accounting 40.0 GPU-hours more were given out (jo 20.0, ken 17.8, ivan 2.2), 20.0 of "
        "them where or when nothing was measured, 20.0 in runs that no sample names: they are in no sum here."
    )


def test_who_is_only_accounted_is_not_said_to_have_held_nothing() -> None:
    ken = given("ken", 17.8, 17.8)
    assert accounted.instead([ken], "You held no GPU.") == (
        "By imported accounting 17.8 GPU-hours were given out (ken 17.8), in runs that no sample names: "
        "nobody knows what was made of them, and they are in no sum here."
    )
    assert accounted.instead([], "You held no GPU.") == "You held no GPU."


def test_what_a_run_had_by_accounting_alone_and_in_no_sum_is_told() -> None:
    """Two holders without a name on the node may be wil's run; ivan's had 10 h where 2.2 were left."""
    wil = given("wil", 0.0, 0.0, 10.0)
    more = (
        "10.0 GPU-hours more (wil 10.0) are in no sum: by the samples their nodes had no GPU left for them, "
        "or somebody unknown held some, who may be they."
    )
    assert accounted.left_out([wil]) == f"By imported accounting {more}"
    assert accounted.instead([wil], "none") == f"By imported accounting {more}"
    assert more in accounted.told([wil | ROW]) and "0.0 GPU-hours" not in accounted.told([wil | ROW])[4:]
    ivan = accounted.left_out([given("ivan", 2.2, 2.2, 7.8)])
    assert ivan is not None and ivan.endswith(
        " 7.8 GPU-hours more (ivan 7.8) are in no sum: by the samples their nodes had no GPU left for them, "
        "or somebody unknown held some, who may be they."
    )
    assert accounted.counted([given("slurm:5001", 2.2, 2.2, 7.8)]) == (
        "the ledger counts 2.2 of these 10.0 GPU-hours: for 7.8 its nodes had, by the samples, no GPU left "
        "for it, or somebody unknown held one, who may be its owner"
    )
    assert accounted.counted([given("slurm:5001", 2.2, 2.2)]) is None is accounted.counted([])


class Accounted:
    """A client of a store that has samples of ben alone, and accounting of ken's too."""

    def rows_if_kept(self, query: str, **asked: object) -> list[dict[str, object]]:
        if query == "options":
            return [{"dimension": "user", "value": "ben"}]
        assert query == "accounted_use"
        return [given("ken", 17.8, 17.8)] if asked["user"] == "ken" else []


def test_who_is_only_accounted_is_no_name_that_nothing_recorded_has() -> None:
    told = [
        unknown_names(argparse.Namespace(user=user), cast("Client", Accounted()))
        for user in ("ben", "ken", "kai")
    ]
    assert told == [
        [],
        ["Only imported accounting knows the user 'ken'; no sample does."],
        ["No user 'kai' is recorded here."],
    ]


ROW = {"measured_gpu_hours": 0.0, "used_gpu_hours": 0.0, "unused_gpu_hours": 0.0}
