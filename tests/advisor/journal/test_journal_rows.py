"""The journal on a real store: what is meant is durable before it is done, and settled once."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from advisor.actions import Action, Notify, Pause, Start
from advisor.cycle import run_cycle
from advisor.journal.journal import Order, StoreJournal, boot_name
from advisor.journal.pending_plans import PendingPlans
from advisor.journal.proposals import Proposal, Standing
from advisor.journal.records import Result, Stood
from advisor.outcomes import Done, Failed, Late, Outcome, Stale, Unsupported
from advisor.planner.limits import Limits, Mode
from advisor.state.model import ActionClass, Job, Phase
from advisor.statements import statement
from collector.store.database import Limits as StoreLimits
from collector.store.database import Store
from collector.store.errors import StoreFull
from collector.store.retention import Retention
from tests.advisor.journal.journal_parts import HOUR_MS, T0, Hands, cluster, running
from tests.stores import open_store

AUTO = Limits(modes=dict.fromkeys(ActionClass, Mode.AUTO))
STATEMENTS = (
    "add_intent",
    "add_plan",
    "intents",
    "mark_undone",
    "next_number",
    "plans",
    "read_switch",
    "recent_intents",
    "set_switch",
    "settle_intent",
    "settle_plan",
    "snoozed_plans",
)


def opened(folder: Path) -> Store:
    return open_store(folder / "fallow.duckdb")


def test_an_intent_is_kept_before_anything_is_done(tmp_path: Path) -> None:
    pause = Pause(job="fallow:7", reason="it was idle")
    with opened(tmp_path) as store:
        journal = StoreJournal(store, Hands(), lambda: "boot")
        journal.watching(lambda: running("fallow:7", gpus=2))()
        number = journal.intends(T0, pause)
        (deed,) = journal.unsettled()
    with opened(tmp_path) as store:
        (again,) = StoreJournal(store, Hands()).unsettled()
    assert again == deed
    assert (again.number, again.verb, again.actor, again.reason) == (number, "pause", "fallow", "it was idle")
    assert again.step == pause
    assert again.stood == Stood(
        phase=Phase.RUNNING, gpus=("n/0", "n/1"), nodes=("n",), may_wait=True, user="ann"
    )
    assert (again.undo, again.result, again.begun.boot) == ("fallow resume fallow:7", None, "boot")


@pytest.mark.parametrize(
    ("outcome", "result", "found"),
    [
        (Done(note="took 2 s"), Result.DONE, "took 2 s"),
        (Stale(found="it ended"), Result.STALE, "it ended"),
        (Unsupported(why="no driver"), Result.UNSUPPORTED, "no driver"),
        (Failed(found="no answer"), Result.FAILED, "no answer"),
    ],
)
def test_what_came_of_an_intent_is_written_once(
    tmp_path: Path, outcome: Outcome, result: Result, found: str
) -> None:
    with opened(tmp_path) as store:
        journal = StoreJournal(store, Hands())
        number = journal.intends(T0, Notify(job="a", message="hello"))
        journal.came_of(T0 + 5, number, outcome)
        assert not journal.settle(T0 + 9, number, Result.UNKNOWN, "again")
        deed = journal.deed(number)
        assert deed is not None
        assert (deed.result, deed.found, deed.settled_ms) == (result, found, T0 + 5)
        assert journal.unsettled() == ()


@pytest.mark.parametrize(
    ("outcome", "undo", "no_undo"),
    [
        (Done(), "fallow resume fallow:7", None),
        (Failed(found="it may be half done"), "fallow resume fallow:7", None),
        (Stale(found="it ended"), None, "nothing was done"),
        (Unsupported(why="no driver"), None, "nothing was done"),
    ],
)
def test_what_was_refused_offers_no_undo(
    tmp_path: Path, outcome: Outcome, undo: str | None, no_undo: str | None
) -> None:
    with opened(tmp_path) as store:
        journal = StoreJournal(store, Hands())
        journal.watching(lambda: running("fallow:7", gpus=2))()
        number = journal.intends(T0, Pause(job="fallow:7"))
        journal.came_of(T0 + 5, number, outcome)
        deed = journal.deed(number)
        assert deed is not None and (deed.undo, deed.no_undo) == (undo, no_undo)


def test_numbers_grow_across_restarts_and_beyond_directives(tmp_path: Path) -> None:
    numbers = []
    for _ in range(2):
        with opened(tmp_path) as store:
            journal = StoreJournal(store, Hands())
            numbers += [journal.intends(T0, Notify(job="a", message="x")) for _ in range(2)]
    with opened(tmp_path) as store:
        with store.writing("giving a directive") as connection:
            connection.execute(
                "INSERT INTO directives (number, job, given_at, body) VALUES (40, 'a', epoch_ms(0), '{}')"
            )
        numbers.append(StoreJournal(store, Hands()).intends(T0, Notify(job="a", message="x")))
    assert numbers == [1, 2, 3, 4, 41]


class Does:
    """An engine that notes what the journal knew when it was asked to act."""

    def __init__(self, journal: StoreJournal) -> None:
        self._journal = journal
        self.knew: list[tuple[int, int]] = []

    def do(self, step: Action, intent: int = 0) -> Outcome:
        self.knew.append((intent, len(self._journal.unsettled())))
        return Done()


def test_a_cycle_writes_its_plan_its_intents_and_what_came_of_them(tmp_path: Path) -> None:
    waits = Job(id="w", project="owed", user="bob")
    state = cluster(waits, on={})
    with opened(tmp_path) as store:
        journal = StoreJournal(store, clock := Hands())
        engine = Does(journal)
        run_cycle(journal.watching(lambda: state), engine, journal, clock, AUTO)
        (deed,) = journal.deeds(since_ms=0)
        assert engine.knew == [(deed.number, 1)]
        assert isinstance(deed.step, Start)
        assert (deed.job, deed.verb, deed.result, deed.no_undo) == (
            "w",
            "start",
            Result.DONE,
            "it cannot stop and go on: it can only be cancelled or finish",
        )
        kept = PendingPlans(store).plan(deed.plan or 0)
        assert kept is not None
        assert [each.step for each in kept.proposal.steps] == [deed.step]


def test_a_cycle_that_does_nothing_leaves_nothing_behind(tmp_path: Path) -> None:
    waits = Job(id="w", project="owed")
    with opened(tmp_path) as store:
        journal = StoreJournal(store, clock := Hands())
        run_cycle(lambda: cluster(waits, on={}), Does(journal), journal, clock, Limits())
        assert journal.deeds(since_ms=0) == ()
        assert PendingPlans(store).newest() == ()


def test_orders_of_people_are_rows_like_all_others(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        journal = StoreJournal(store, Hands())
        kept = Order(job="slurm:8", verb="keep", reason="for 4 h", no_undo="it ends by itself")
        first = journal.ordered(T0, kept, "user ann")
        second = journal.intends(T0 + HOUR_MS, Pause(job="a"), "user bob", plan=3)
        newest, oldest = journal.deeds(since_ms=0)
        assert (oldest.number, oldest.verb, oldest.actor, oldest.step) == (first, "keep", "user ann", None)
        assert (newest.number, newest.actor, newest.plan) == (second, "user bob", 3)
        journal.came_of(T0, first, Done())
        assert [deed.number for deed in journal.deeds(since_ms=T0 + 1)] == [second]
        assert [deed.number for deed in journal.deeds(since_ms=0, job="slurm:8")] == [first]


def test_peoples_orders_do_not_lengthen_what_every_look_reads(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        journal = StoreJournal(store, Hands())
        kept = [journal.intends(T0, Pause(job="a")), journal.intends(T0, Pause(job="a"), "user ann", plan=3)]
        for _ in range(5):
            for job in ("a", "b"):
                number = journal.intends(T0, Pause(job=job), "user eve")
                journal.came_of(T0, number, Done())
            kept_of_a, kept_of_b = number - 1, number
        still = journal.intends(T0, Pause(job="c"), "user eve")
        found = [deed.number for deed in journal.lately()]
        assert found == [*kept, kept_of_a, kept_of_b, still], "the newest of each job, and what is being done"


def test_an_intent_is_undone_by_one_other(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        journal = StoreJournal(store, Hands())
        number = journal.intends(T0, Pause(job="a"))
        assert journal.undone(number, by=9)
        assert not journal.undone(number, by=10)
        deed = journal.deed(number)
        assert deed is not None
        assert deed.undone_by == 9


def test_a_verb_of_a_newer_version_is_shown_and_not_understood(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        journal = StoreJournal(store, Hands())
        number = journal.intends(T0, Pause(job="a"))
        with store.writing("playing a newer version") as connection:
            connection.execute("""UPDATE intents SET verb = 'freeze', step = '{"is":"Freeze","job":"a"}'""")
        deed = journal.deed(number)
        assert deed is not None
        assert (deed.verb, deed.step) == ("freeze", None)


def test_the_machine_names_this_boot() -> None:
    assert boot_name() == boot_name()


def test_every_statement_asks_for_parameters_alone() -> None:
    for name in STATEMENTS:
        assert statement(name).startswith("--"), name


def test_what_is_late_stays_open(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        journal = StoreJournal(store, Hands())
        number = journal.intends(T0, Pause(job="fallow:1"))
        journal.came_of(T0, number, Late(found="no answer in 10 s"))
        assert [deed.number for deed in journal.unsettled()] == [number]
        assert not journal.is_at_work_on(number)


def test_the_journal_is_let_go_of_with_the_hours_and_numbers_go_on(tmp_path: Path) -> None:
    """By expire_intents, expire_directives, expire_plans, expire_tellings and expire_keeps."""
    day_ms = 24 * HOUR_MS
    with opened(tmp_path) as store:
        journal, shelf = StoreJournal(store, Hands()), PendingPlans(store)
        old = [journal.intends(T0, Pause(job="a")) for _ in range(3)]
        for number in old[1:]:
            journal.came_of(T0, number, Done())
        plans = [shelf.put(T0, Proposal(steps=()), standing) for standing in Standing]
        with store.writing("telling and keeping") as connection:
            connection.execute("INSERT INTO tellings VALUES ('a', epoch_ms(0), 'tell', 'x', NULL)")
            connection.execute("INSERT INTO keeps VALUES ('a', epoch_ms(0), epoch_ms(1), 'ann')")
            connection.execute("INSERT INTO directives VALUES (1, 'a', epoch_ms(0), '{}', epoch_ms(1), NULL)")
            connection.execute("INSERT INTO directives VALUES (2, 'a', epoch_ms(0), '{}', NULL, NULL)")
        store.apply_retention(Retention(hours_days=30.0), T0 + 90 * day_ms)
        assert [deed.number for deed in journal.deeds(since_ms=0)] == [old[2], old[0]], "open ones stay"
        assert journal.intends(T0, Pause(job="a")) == old[2] + 1
        left = {kept.number for kept in shelf.newest()}
        assert left == {
            plan for plan, each in zip(plans, Standing, strict=True) if each is not Standing.EXPIRED
        }
        with store.reader() as reader:
            counts = reader.execute(
                "SELECT (SELECT count(*) FROM tellings), (SELECT count(*) FROM keeps), "
                "(SELECT count(*) FROM directives)"
            ).fetchall()
        assert counts == [(0, 0, 1)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"mounting a small tmpfs needs root: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


class Acts:
    """An engine that counts; its world never says no."""

    def __init__(self) -> None:
        self.done = 0

    def do(self, step: Action, intent: int = 0) -> Outcome:
        self.done += 1
        return Done()


def test_on_a_full_disk_nothing_is_done_that_was_not_written_down(small_disk: Path) -> None:
    state = cluster(*(Job(id=f"w{at}", project="owed", name="x" * 500) for at in range(4)), on={})
    with open_store(small_disk / "fallow.duckdb", StoreLimits(wal_bytes=1 << 30)) as store:
        journal, clock, engine = StoreJournal(store, Hands()), Hands(), Acts()
        ballast = small_disk / "ballast"
        room = os.statvfs(small_disk)
        ballast.write_bytes(b"x" * max(0, room.f_bavail * room.f_frsize - 60_000))
        with pytest.raises(StoreFull):
            for _ in range(500):
                run_cycle(journal.watching(lambda: state), engine, journal, clock, AUTO)
        written = journal.deeds(since_ms=0, most=10_000)
        assert engine.done in (len(written), len(written) - 1)
        ballast.unlink()
        for deed in journal.unsettled():
            assert journal.settle(T0, deed.number, Result.DONE, "written once there was room")
        run_cycle(journal.watching(lambda: state), engine, journal, clock, AUTO)
        assert len(journal.deeds(since_ms=0, most=10_000)) == engine.done
