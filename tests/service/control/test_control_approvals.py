"""Plans that wait, approvals, rejections and undoing, with real parts: store, journal, guard, register."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.actions import Action, Move, Notify, Pause, Requeue, Resize, Start
from advisor.cycle import run_cycle
from advisor.engines.dry_run import DryRun
from advisor.jobs.job_store import open_register
from advisor.outcomes import Failed, Outcome
from advisor.planner.limits import Limits, Mode
from advisor.planner.plan import Advice
from advisor.state.model import ActionClass, ClusterState, Job, Placement, Project, Reservation, Telemetry
from analytics.vocabulary.jobs import is_submitted
from collector.store.database import Store
from service.control.approvals import ApprovalDependencies, Papers
from service.control.errors import ActingError, BadOrder, NotAllowed, UnknownJob, WrongState
from service.control.executor import Applying
from service.control.external_jobs import ExternalJobOrders
from service.control.free_gpus import FreeGpus
from service.control.interface import Caller, Role
from service.control.records import Records, open_books
from tests.advisor.journal.journal_parts import HOUR_MS, Hands, calm, cluster
from tests.stores import open_store

ANN = Caller(name="ann", uid=None, role=Role.USER)
BOB = Caller(name="bob", uid=None, role=Role.USER)
ROOT = Caller(name="root", uid=0, role=Role.OPERATOR)
LOOKS = Caller(name="eve", uid=None, role=Role.VIEWER)
ASK = Limits(modes={ActionClass.RECLAIM: Mode.ASK, ActionClass.SCHEDULE: Mode.AUTO})


class Rig:
    """A cluster in memory behind the real papers: what is done changes it, as the planner's rules say."""

    def __init__(self, store: Store, folder: Path, state: ClusterState, limits: Limits) -> None:
        self.clock = Hands()
        self.engine = DryRun(state)
        self.limits = limits
        self.breaks = False
        register = open_register(store, self.clock)
        self.books: Records = open_books(
            store, self.clock, folder, lambda job: None, by_launcher=is_submitted
        )
        self.applying = Applying(self, self.books.journal, self.clock)
        self.papers = Papers(
            ApprovalDependencies(
                books=self.books,
                limits=limits,
                observe=self.observe,
                applying=self.applying,
                register=register,
                taking=FreeGpus(self.observe, limits, self.books.switch.halt),
                by_launcher=is_submitted,
            )
        )
        self.applying.start()

    def observe(self) -> ClusterState:
        state = replace(self.engine.would_be(), as_of_ms=self.clock.now_ms(), actions=())
        return self.books.remember(state)

    def do(self, step: Action, intent: int = 0) -> Outcome:
        return Failed(found="the node is on fire") if self.breaks else self.engine.do(step, intent)

    def turn(self, *steps: Action, **advice: Any) -> list[dict[str, Any]]:
        """One cycle in which policies advise these steps; the plans that wait then."""
        said = [Advice(action=ActionClass.RECLAIM, what="x", why="y", steps=steps, **advice)] if steps else []
        cycle = run_cycle(
            self.observe,
            self,
            self.books.journal,
            self.clock,
            self.limits,
            policies=[lambda state: said],
            halted=self.books.switch.halt,
        )
        self.books.file(cycle, self.limits)
        return [row for row in self.papers.plans(ANN) if row["state"] == "waiting"]


def world(**changes: Any) -> ClusterState:
    """Ann's jobs a and c on two GPUs each of four; bob's job w waits, and his project deserves GPUs."""
    waits = Job(id="w", project="owed", user="bob", checkpointable=True)
    mine = calm("a", max_gpus=2), calm("c", user="ann", max_gpus=2)
    held = {"a": ("n/0", "n/1"), "c": ("n/2", "n/3")}
    return cluster(*mine, waits, on=held, **changes)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with open_store(tmp_path / "fallow.duckdb") as store:
        made = Rig(store, tmp_path, world(), ASK)
        yield made
        made.applying.stop()


PAUSE = Pause(job="a", for_job="w", reason="it was idle for 60 min")


def test_what_needs_a_yes_waits_with_what_follows_from_it(rig: Rig) -> None:
    (plan,) = rig.turn(PAUSE, gain_gpu_hours=2.0, horizon_s=3600.0)
    assert [(each["n"], each["verb"], each["job"], each["mode"]) for each in plan["steps"]] == [
        (1, "pause", "a", "ask"),
        (2, "start", "w", "auto"),
    ]
    first = plan["steps"][0]
    assert first["sentence"] == "pause a of ann for w"
    assert first["expected_gain"] == {"gpu_hours": 2.0, "horizon_s": 3600.0}
    assert (first["user"], first["project"], first["why"]) == ("ann", "guests", "y")
    assert rig.engine.would_be().placements.keys() == {"a", "c"}


def test_what_is_done_by_itself_is_no_part_of_what_waits(tmp_path: Path) -> None:
    """Bob's one job starts on the GPU that is free; a yes is asked for the gang alone, on what is left."""
    state = world()
    small = Job(id="small", project="other", user="bob", preemptible=True)
    gang = Job(id="gang", project="owed", user="bob", min_gpus=2, max_gpus=2)
    jobs = {"a": state.jobs["a"], "small": small, "gang": gang}
    limits = Limits(modes={ActionClass.FAIR_SHARE: Mode.ASK, ActionClass.SCHEDULE: Mode.AUTO})
    state = replace(state, jobs=jobs, placements={"a": Placement(gpus=("n/0", "n/1"))})
    state = replace(state, gpus={uuid: gpu for uuid, gpu in state.gpus.items() if uuid != "n/3"})
    with open_store(tmp_path / "fallow.duckdb") as store:
        rig = Rig(store, tmp_path, state, limits)
        (plan,) = rig.turn()
        assert rig.engine.would_be().placements.keys() == {"a", "small"}
        assert [(each["verb"], each["job"]) for each in plan["steps"]] == [
            ("requeue", "a"),
            ("start", "gang"),
        ]
        assert [each["plan"] for each in rig.turn()] == [plan["plan"]]
        rig.papers.apply(ROOT, plan["plan"], None)
        assert rig.engine.would_be().placements.keys() == {"small", "gang"}
        rig.applying.stop()


def test_a_plan_keeps_its_number_while_only_its_words_change(rig: Rig) -> None:
    (first,) = rig.turn(PAUSE)
    rig.clock.pass_ms(60_000)
    (again,) = rig.turn(replace(PAUSE, reason="it was idle for 61 min"))
    assert again["plan"] == first["plan"]


def test_another_plan_for_the_same_takes_its_place(rig: Rig) -> None:
    (first,) = rig.turn(Notify(job="a", message="hello"), Notify(job="c", message="hello"))[:1]
    plans = rig.turn(PAUSE)
    assert plans[0]["plan"] > first["plan"]


def test_plans_that_have_nothing_to_do_with_each_other_wait_apart(rig: Rig) -> None:
    plans = rig.turn(Notify(job="a", message="hello"), Notify(job="c", message="hello"))
    assert [[each["job"] for each in plan["steps"]] for plan in plans] == [["c"], ["a"]]


def test_a_yes_does_the_plan_and_writes_who_said_so(rig: Rig) -> None:
    (plan,) = rig.turn(PAUSE)
    row = rig.papers.apply(ANN, plan["plan"], None)
    assert [each["outcome"] for each in row["steps"]] == ["done", "done"]
    assert (row["outcome"], row["action"]) == ("done", 1)
    assert rig.engine.would_be().placements.keys() == {"c", "w"}
    done = rig.papers.actions(ANN, since_ms=None, job="a")[0]
    assert (done["verb"], done["actor"], done["plan"], done["outcome"]) == (
        "pause",
        "user ann",
        plan["plan"],
        "done",
    )
    assert done["undo"] == "fallow resume a"
    (kept,) = [row for row in rig.papers.plans(ANN) if row["plan"] == plan["plan"]]
    assert (kept["state"], kept["settled_by"]) == ("applied", "ann")


def test_a_plan_is_applied_once(rig: Rig) -> None:
    (plan,) = rig.turn(PAUSE)
    rig.papers.apply(ANN, plan["plan"], None)
    with pytest.raises(WrongState, match="does not wait any more: applied by ann"):
        rig.papers.apply(ROOT, plan["plan"], None)
    assert len(rig.papers.actions(ANN, since_ms=None, job="a")) == 1


def test_what_became_stale_is_said_and_not_done(rig: Rig) -> None:
    (plan,) = rig.turn(PAUSE)
    rig.engine.do(Pause(job="a"))
    with pytest.raises(WrongState, match="step 1: Pause a: the job is paused, and must be running"):
        rig.papers.apply(ANN, plan["plan"], None)
    assert rig.papers.actions(ANN, since_ms=None, job=None) == []


def test_what_came_to_be_protected_meanwhile_is_not_touched(rig: Rig) -> None:
    (plan,) = rig.turn(PAUSE)
    state = rig.engine.would_be()
    doubtful = {uuid: replace(gpu, telemetry=Telemetry.UNKNOWN) for uuid, gpu in state.gpus.items()}
    rig.engine = DryRun(replace(state, gpus=doubtful))
    with pytest.raises(WrongState, match="what is measured of GPU n/0 is unknown"):
        rig.papers.apply(ROOT, plan["plan"], None)


def test_one_step_can_be_chosen(rig: Rig) -> None:
    (plan,) = rig.turn(PAUSE)
    row = rig.papers.apply(ANN, plan["plan"], (1,))
    assert [each["n"] for each in row["steps"]] == [1]
    assert rig.engine.would_be().placements.keys() == {"c"}


def test_a_step_that_rests_on_one_left_out_is_not_done(rig: Rig) -> None:
    (plan,) = rig.turn(PAUSE)
    with pytest.raises(WrongState, match="step 2: Start w on n/0: 1 of it is given to a"):
        rig.papers.apply(BOB, plan["plan"], (2,))


def test_it_stops_at_the_first_surprise(rig: Rig) -> None:
    (plan,) = rig.turn(PAUSE)
    rig.breaks = True
    row = rig.papers.apply(ANN, plan["plan"], None)
    assert (row["outcome"], row["message"]) == ("failed", "the node is on fire")
    assert [each["outcome"] for each in row["steps"]] == ["failed", None]


@pytest.mark.parametrize("caller", [BOB, LOOKS])
def test_nobody_says_yes_or_no_to_what_is_done_to_others(rig: Rig, caller: Caller) -> None:
    (plan,) = rig.turn(PAUSE)
    with pytest.raises(NotAllowed, match="is done to a; its owner or an operator may"):
        rig.papers.apply(caller, plan["plan"], None)
    with pytest.raises(NotAllowed):
        rig.papers.reject(caller, plan["plan"], "no", None)


@pytest.mark.parametrize(
    ("number", "steps", "error"),
    [
        (99, None, UnknownJob),
        (0, None, UnknownJob),
        (-1, None, UnknownJob),
        (2**70, None, UnknownJob),
        (1, (9,), BadOrder),
        (1, (0,), BadOrder),
        (1, (), BadOrder),
    ],
)
def test_orders_that_make_no_sense_are_refused(
    rig: Rig, number: int, steps: tuple[int, ...] | None, error: type[ActingError]
) -> None:
    rig.turn(PAUSE)
    with pytest.raises(error):
        rig.papers.apply(ROOT, number, steps)


def test_a_no_holds_for_a_day_while_the_evidence_is_the_same(rig: Rig) -> None:
    (plan,) = rig.turn(PAUSE)
    row = rig.papers.reject(ANN, plan["plan"], "it computes at night", None)
    assert "while it rests on the same evidence" in row["message"]
    assert rig.turn(replace(PAUSE, reason="other words")) == []
    rig.clock.pass_ms(23 * HOUR_MS)
    assert rig.turn(PAUSE) == []
    rig.clock.pass_ms(HOUR_MS)
    assert len(rig.turn(PAUSE)) == 1


def test_a_no_ends_when_the_evidence_changes_unless_a_time_was_named(rig: Rig) -> None:
    (plan,) = rig.turn(PAUSE)
    rig.papers.reject(ANN, plan["plan"], "not now", None)
    later = replace(rig.engine.would_be().jobs["a"], started_ms=1)
    rig.engine = DryRun(replace(rig.engine.would_be(), jobs={**rig.engine.would_be().jobs, "a": later}))
    (again,) = rig.turn(PAUSE)
    for hours in (4.0, 24.0):
        rig.papers.reject(ANN, again["plan"], "not now", hours)
        other = replace(later, started_ms=round(hours))
        rig.engine = DryRun(replace(rig.engine.would_be(), jobs={**rig.engine.would_be().jobs, "a": other}))
        assert rig.turn(PAUSE) == []
        rig.clock.pass_ms(round(hours) * HOUR_MS + 1)
        (again,) = rig.turn(PAUSE)


@pytest.mark.parametrize(
    ("because", "hours"), [("", None), ("  ", 4.0), ("no", 0.0), ("no", -1.0), ("no", 1e9)]
)
def test_a_no_needs_a_reason_and_an_end(rig: Rig, because: str, hours: float | None) -> None:
    (plan,) = rig.turn(PAUSE)
    with pytest.raises(BadOrder):
        rig.papers.reject(ANN, plan["plan"], because, hours)


def test_what_is_not_advised_any_more_runs_out(rig: Rig) -> None:
    (plan,) = rig.turn(PAUSE)
    rig.clock.pass_ms(9 * 60_000)
    assert len(rig.turn()) == 1
    rig.clock.pass_ms(2 * 60_000)
    assert rig.turn() == []
    with pytest.raises(WrongState, match="expired by fallow: it is not advised any more"):
        rig.papers.apply(ANN, plan["plan"], None)


def test_a_plan_outlives_a_restart_in_which_nothing_is_measured_yet(rig: Rig, tmp_path: Path) -> None:
    (plan,) = rig.turn(PAUSE)
    rig.clock.pass_ms(HOUR_MS)
    rig.books = open_books(rig.books.store, rig.clock, tmp_path, lambda job: None, by_launcher=is_submitted)
    (waits,) = rig.turn()
    assert waits["plan"] == plan["plan"]
    rig.clock.pass_ms(11 * 60_000)
    assert rig.turn() == []


def test_nothing_is_applied_while_acting_is_stopped(rig: Rig) -> None:
    (plan,) = rig.turn(PAUSE)
    rig.papers.stop_acting(ROOT, "a fire drill")
    with pytest.raises(WrongState, match="acting was stopped by root: a fire drill"):
        rig.papers.apply(ANN, plan["plan"], None)
    assert rig.papers.acting(LOOKS)["acting"] is False
    rig.papers.start_acting(ROOT)
    assert rig.papers.apply(ANN, plan["plan"], None)["outcome"] == "done"


def test_operators_alone_hold_the_switch(rig: Rig) -> None:
    for order in (lambda: rig.papers.stop_acting(ANN, ""), lambda: rig.papers.start_acting(LOOKS)):
        with pytest.raises(NotAllowed, match="an operator"):
            order()


def test_the_bound_on_disturbances_counts_what_was_approved(tmp_path: Path) -> None:
    with open_store(tmp_path / "fallow.duckdb") as store:
        rig = Rig(store, tmp_path, world(), replace(ASK, actions_per_hour=1))
        plans = rig.turn(Pause(job="a"), Pause(job="c"))
        assert [plan["steps"][0]["job"] for plan in plans] == ["a"]
        rig.papers.apply(ANN, plans[0]["plan"], None)
        assert rig.turn(Pause(job="c")) == []
        rig.clock.set_ms(rig.clock.wall_ms + 48 * HOUR_MS)
        assert rig.turn(Pause(job="c")) == [], "a clock set forward frees the brake"
        rig.clock.set_ms(rig.clock.wall_ms - 50 * HOUR_MS)
        assert rig.turn(Pause(job="c")) == [], "a clock set back frees the brake"
        rig.clock.pass_ms(HOUR_MS)
        assert len(rig.turn(Pause(job="c"))) == 1, "an hour has passed, whatever the clock says"
        rig.applying.stop()


@pytest.mark.parametrize(
    ("step", "before", "after"),
    [
        (Resize(job="a", gpus=("n/0",)), ("n/0", "n/1"), ("n/0",)),
        (Move(job="a", gpus=("n/4", "n/5")), ("n/0", "n/1"), ("n/4", "n/5")),
    ],
)
def test_undoing_puts_a_job_back_where_it_was(
    tmp_path: Path, step: Action, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    modes = dict.fromkeys(ActionClass, Mode.OFF)
    modes |= {
        ActionClass.RECLAIM: Mode.AUTO,
        ActionClass.RESIZE: Mode.AUTO,
        ActionClass.CONSOLIDATE: Mode.AUTO,
    }
    state = cluster(calm("a", max_gpus=2), on={"a": before}, gpus=6)
    state = replace(state, projects={"guests": Project(name="guests")})
    with open_store(tmp_path / "fallow.duckdb") as store:
        rig = Rig(store, tmp_path, state, Limits(modes=modes))
        number = rig.books.journal.intends(rig.clock.now_ms(), step)
        rig.books.remember(state)
        number = rig.books.journal.intends(rig.clock.now_ms(), step)
        rig.books.journal.came_of(rig.clock.now_ms(), number, rig.engine.do(step))
        assert rig.engine.would_be().placements["a"].gpus == after
        row = rig.papers.undo(ANN, number)
        assert row["outcome"] == "done"
        assert rig.engine.would_be().placements["a"].gpus == before
        journal = {each["action"]: each for each in rig.papers.actions(ANN, since_ms=None, job=None)}
        assert journal[number]["undone_by"] == row["action"]
        assert journal[row["action"]]["actor"] == "user ann"
        assert journal[number]["user"] == "ann", "whose job it was stays known when it has ended"
        with pytest.raises(WrongState, match="was undone by action"):
            rig.papers.undo(ANN, number)
        rig.applying.stop()


def test_only_owners_and_operators_undo_and_only_what_was_done(rig: Rig) -> None:
    (plan,) = rig.turn(PAUSE)
    done = rig.papers.apply(ANN, plan["plan"], (1,))["action"]
    with pytest.raises(NotAllowed):
        rig.papers.undo(BOB, done)
    with pytest.raises(NotAllowed):
        rig.papers.undo(LOOKS, done)
    with pytest.raises(UnknownJob):
        rig.papers.undo(ROOT, 99)
    rig.breaks = True
    failed = rig.papers.undo(ROOT, done)
    assert failed["outcome"] == "failed"
    with pytest.raises(WrongState, match=r"was not done \(failed\)"):
        rig.papers.undo(ROOT, failed["action"])
    rig.breaks = False
    assert rig.papers.undo(ROOT, done)["outcome"] == "done"


def test_what_was_given_up_and_is_promised_since_is_not_taken_back_by_undoing(rig: Rig) -> None:
    step = Requeue(job="a", reason="over its share")
    rig.books.remember(rig.engine.would_be())
    number = rig.books.journal.intends(rig.clock.now_ms(), step)
    rig.books.journal.came_of(rig.clock.now_ms(), number, rig.engine.do(step))
    promised = Reservation(start_ms=rig.clock.now_ms() + 60_000, gpus=("n/0", "n/1"))
    state = rig.engine.would_be()
    rig.engine = DryRun(replace(state, reservations={"w": promised}))
    with pytest.raises(WrongState, match=r"n/0, n/1: promised to w, which waits"):
        rig.papers.undo(ANN, number)


def test_a_foreign_job_does_not_come_back_onto_what_was_promised_since(rig: Rig) -> None:
    rig.engine.do(Pause(job="a"))
    promised = Reservation(start_ms=rig.clock.now_ms() + 60_000, gpus=("n/1",))
    rig.engine = DryRun(replace(rig.engine.would_be(), reservations={"w": promised}))
    taking = FreeGpus(rig.observe, rig.limits, rig.books.switch.halt)
    orders = ExternalJobOrders(rig.observe, rig.applying, taking)
    with pytest.raises(WrongState, match="promised to w, which waits"):
        orders.resume(ANN, "a", "")
    assert orders.resume(ROOT, "a", "")["outcome"] == "done"


def test_what_nothing_undoes_says_why(rig: Rig) -> None:
    rig.books.remember(rig.engine.would_be())
    number = rig.books.journal.intends(0, Notify(job="a", message="hello"))
    rig.books.journal.came_of(0, number, rig.engine.do(Notify(job="a", message="hello")))
    with pytest.raises(WrongState, match="what was said cannot be unsaid"):
        rig.papers.undo(ANN, number)
    started = rig.books.journal.intends(0, Start(job="a", gpus=("n/0",)))
    with pytest.raises(WrongState, match="still being done"):
        rig.papers.undo(ANN, started)
