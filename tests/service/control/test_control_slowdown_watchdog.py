"""Two jobs on one GPU, watched and parted, with a real register, journal and engine; launchers' word.

Pairs are written by add_pair and settle_pair, and read by the query pairs.
"""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.actions import Action, Move, Start
from advisor.cycle import Cycle
from advisor.decide import decide
from advisor.engines.brief import Brief
from advisor.engines.launched import LocalEngine, Patience, SentCommand
from advisor.jobs.gpu_sharing import Device, Mps, Terms, terms
from advisor.jobs.job_store import Register, open_register
from advisor.jobs.lifecycle import in_flight
from advisor.jobs.model import ExitReason, JobRecord, JobState, RequeueCommand
from advisor.jobs.slowdown_store import SlowdownStore
from advisor.jobs.slowdown_watchdog import Pair
from advisor.journal.journal import StoreJournal
from advisor.journal.records import Result
from advisor.planner.guard import approve
from advisor.planner.limits import Limits, Mode
from advisor.policies.pack import PAIRING
from advisor.state.model import ActionClass, ClusterState, Gpu, Job, Placement
from collector.model import GpuUuid, JobId, NodeName
from collector.store.database import Store
from service.control.slowdown_watchdog import SlowdownWatchdog
from tests.advisor.jobs.job_store_world import GPUS, HandClock, acknowledge, submission, word
from tests.service.conftest import until
from tests.stores import open_store

AUTO = Limits(modes={ActionClass.PACK: Mode.AUTO})
AUTO_REST_S = round(AUTO.cooldown_s)
RESTED = replace(AUTO, cooldown_s=60.0)
GIB = 1024**3
SOON_S = 0.5


class Patient(HandClock):
    """A calendar that is moved by hand, and a stopwatch that runs."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class Rig:
    """Two jobs of 10 steps a second, each on a GPU of its own; launchers do as they are told at once."""

    def __init__(self, store: Store, limits: Limits, gpus: int = 2) -> None:
        self.clock, self.limits, self.store = Patient(), limits, store
        self.gpus = GPUS[:gpus]
        self.register: Register = open_register(store, self.clock)
        self.engine = LocalEngine(self.register, self.clock, self.agree, Patience(answer_s=5, reshape_s=5))
        self.journal = StoreJournal(store, self.clock)
        self.takes_s = 0.0
        self.fails: str | None = None
        self.watching = self.made()
        self.register.listen(self.heard)
        self.speed: dict[JobId, float] = {}
        self.steps: dict[JobId, float] = {}
        self.host, self.guest = self.started("host", GPUS[0]), self.started("guest", GPUS[1])

    def made(self) -> SlowdownWatchdog:
        """A service that was just started."""
        book = SlowdownStore(self.store, self.clock)
        brief = Brief[SentCommand](self.engine, soon_s=SOON_S)
        return SlowdownWatchdog(self.register, brief, self.journal, self.clock, self.limits, book=book)

    def agree(self, entry: JobRecord, gpus: tuple[GpuUuid, ...], share: float) -> Terms:
        return terms(entry.submission, share, [Device(uuid=gpus[0], memory_bytes=82 * GIB)], (), Mps())

    def started(self, name: str, gpu: GpuUuid) -> JobId:
        wanted = submission(name=name, nonce=name, max_gpus=1, memory_bytes=20 * GIB, grace_s=0.1)
        entry, _ = self.register.submit(wanted)
        self.register.report(entry.id, word(JobState.PENDING))
        self.do(Start(job=entry.id, gpus=(gpu,)))
        self.speed[entry.id], self.steps[entry.id] = 10.0, 0.0
        return entry.id

    def do(self, *steps: Action) -> None:
        for step in steps:
            self.journal.saw(self.state())
            number = self.journal.intends(self.clock.now_ms(), step)
            self.journal.came_of(self.clock.now_ms(), number, self.engine.do(step, number))

    def heard(self, before: JobRecord | None, after: JobRecord) -> None:
        directive = after.directive
        if directive is not None and after.acknowledged < directive.number:
            gpus = () if isinstance(directive, RequeueCommand) else getattr(directive, "gpus", after.gpus)
            self.clock.at_ms += 1  # no launcher answers within the same millisecond
            more = {"gpus": gpus, "failed": self.fails}
            threading.Timer(self.takes_s, acknowledge, (self.register, after), more).start()

    def over(self, job: JobId) -> None:
        """It ends by itself."""
        handled = self.register.entry(job).acknowledged
        self.register.report(job, word(JobState.ENDED, handled, exit_reason=ExitReason.DONE, exit_code=0))
        del self.speed[job]

    def pack(self) -> None:
        """What the policy's advice does."""
        host = Move(job=self.host, gpus=GPUS[:1], share=0.5, action=ActionClass.PACK)
        guest = Move(job=self.guest, gpus=GPUS[:1], share=0.5, action=ActionClass.PACK)
        self.do(host, guest)

    def state(self) -> ClusterState:
        entries = self.register.entries()
        on = {id: entry for id, entry in entries.items() if entry.gpus}
        return ClusterState(
            as_of_ms=self.clock.now_ms(),
            gpus={uuid: Gpu(uuid=uuid, node=NodeName("here"), model="H100") for uuid in self.gpus},
            jobs={
                id: Job(id=id, project=each.submission.project, user="anna", name=each.submission.name)
                for id, each in on.items()
            },
            placements={id: Placement(gpus=each.gpus, share=each.share) for id, each in on.items()},
        )

    def live(self, seconds: int, halt: str | None = None) -> None:
        """Time goes by: steps are made and told every five seconds, and cycles go by."""
        for _ in range(0, seconds, 5):
            self.clock.pass_s(5)
            for id in self.speed:
                entry = self.register.entry(id)
                if entry.state is JobState.RUNNING:
                    self.steps[id] += 5 * self.speed[id]
                    told = {"step": int(self.steps[id]), "counted_ms": self.clock.steady_ms}
                    self.register.report(
                        id, word(JobState.RUNNING, entry.acknowledged, gpus=entry.gpus, **told)
                    )
            state = self.watching.remember(self.state())
            self.journal.saw(state)
            plan = decide(state, self.limits)
            ruling = approve(plan, state, self.limits)
            self.watching.after(Cycle(state=state, plan=plan, ruling=ruling, outcomes=(), halt=halt))

    def devices(self) -> dict[str, tuple[GpuUuid, ...]]:
        both = {"host": self.host, "guest": self.guest}
        return {name: self.register.entry(job).gpus for name, job in both.items()}

    def pairs(self) -> tuple[Pair, ...]:
        return SlowdownStore(self.store, self.clock).pairs()


TOGETHER = {"host": GPUS[:1], "guest": GPUS[:1]}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "fallow.duckdb")
    yield opened
    opened.close()


def test_a_pair_that_gets_on_is_learnt_and_left_alone(store: Store) -> None:
    rig = Rig(store, AUTO)
    rig.live(180)
    assert rig.watching.remember(rig.state()).jobs[rig.host].paced
    rig.pack()
    rig.speed = {rig.host: 9.5, rig.guest: 6.0}
    rig.live(180)
    assert rig.devices() == TOGETHER
    (pair,) = rig.pairs()
    assert (pair.host, pair.guest, pair.alone) == (rig.host, rig.guest, (10.0, 10.0))
    assert pair.speeds == (pytest.approx(0.95), pytest.approx(0.6)) and pair.windows == 3
    assert not pair.undone and 0 < pair.expected_gain < 0.2, "most pairs that nobody tried don't get on"


def test_a_slow_guest_is_no_reason_a_slow_host_is(store: Store) -> None:
    rig = Rig(store, AUTO)
    rig.live(180)
    rig.pack()
    rig.speed[rig.host] = 8.0
    rig.live(145)
    assert rig.devices() == TOGETHER, "two slow windows"
    rig.live(10)
    assert rig.devices() == {"host": GPUS[:1], "guest": GPUS[1:2]}
    assert rig.register.entry(rig.host).share == rig.register.entry(rig.guest).share == 1.0
    (pair,) = rig.pairs()
    assert pair.undone and pair.speeds == (pytest.approx(0.8), pytest.approx(1.0))
    reasons = {deed.reason for deed in rig.journal.deeds(0) if "parted" in deed.reason}
    assert reasons == {f"{rig.host} runs at 80% of its own speed beside {rig.guest}, so they are parted"}
    rig.live(120)
    assert len([deed for deed in rig.journal.deeds(0) if "parted" in deed.reason]) == 2, "done once"


def test_a_guest_that_takes_its_time_to_leave_is_waited_for_and_the_host_is_whole_then(store: Store) -> None:
    rig = Rig(store, AUTO)
    rig.live(180)
    rig.pack()
    rig.speed[rig.host], rig.takes_s = 8.0, 2 * SOON_S
    rig.live(145)
    for _ in range(2):
        if not in_flight(rig.register.entry(rig.guest)):
            rig.live(5)
    assert in_flight(rig.register.entry(rig.guest)) and rig.register.entry(rig.host).share == 0.5
    until("it has moved", lambda: not in_flight(rig.register.entry(rig.guest)))
    rig.live(5)
    until("the host was told", lambda: not in_flight(rig.register.entry(rig.host)))
    assert rig.devices() == {"host": GPUS[:1], "guest": GPUS[1:2]}
    assert rig.register.entry(rig.host).share == rig.register.entry(rig.guest).share == 1.0
    deeds = [(deed.job, deed.result) for deed in rig.journal.deeds(0) if "parted" in deed.reason]
    assert deeds == [(rig.guest, None)], "settled by the next cycle's beginning"


def test_an_earlier_guest_that_got_on_is_no_reason_to_keep_half_of_the_gpu(store: Store) -> None:
    rig = Rig(store, AUTO)
    rig.live(180)
    rig.pack()
    rig.live(180)
    first = rig.guest
    rig.over(first)
    rig.guest = rig.started("other", GPUS[1])
    rig.live(180)
    rig.pack()
    rig.speed[rig.host], rig.takes_s = 8.0, 2 * SOON_S
    for _ in range(60):
        if not in_flight(rig.register.entry(rig.guest)):
            rig.live(5)
    until("it has moved", lambda: not in_flight(rig.register.entry(rig.guest)))
    rig.takes_s = 0.0
    rig.live(5)
    assert {pair.guest: pair.undone for pair in rig.pairs()} == {first: False, rig.guest: True}
    assert rig.register.entry(rig.host).share == 1.0


def test_who_is_left_alone_gets_all_of_its_gpu_again_where_it_is_slower_for_less(store: Store) -> None:
    """Under MPS half of a GPU is half of its threads, whoever has the other half."""
    rig = Rig(store, RESTED)
    rig.live(180)
    rig.pack()
    rig.live(180)
    rig.over(rig.guest)
    rig.live(240)
    assert rig.register.entry(rig.host).share == 0.5, "as fast as ever: no restart is worth it"
    rig.speed[rig.host] = 8.0
    rig.live(150)
    assert rig.register.entry(rig.host).share == 1.0
    (deed,) = [deed for deed in rig.journal.deeds(0) if "nobody is beside it" in deed.reason]
    assert (deed.job, deed.result) == (rig.host, Result.DONE)


def test_whose_speed_nobody_knows_gets_all_of_its_gpu_again_after_its_rest(store: Store) -> None:
    """As when its guest never came: the second of the two moves has failed."""
    rig = Rig(store, AUTO)
    rig.do(Move(job=rig.host, gpus=GPUS[:1], share=0.5, action=ActionClass.PACK))
    rig.speed = {}
    rig.live(AUTO_REST_S - 10)
    assert rig.register.entry(rig.host).share == 0.5, "a guest may be on its way"
    rig.live(15)
    assert rig.register.entry(rig.host).share == 1.0


def test_what_fails_is_not_tried_again_before_another_rest(store: Store) -> None:
    """Each try is a checkpoint of somebody's job."""
    rig = Rig(store, RESTED)
    rig.do(Move(job=rig.host, gpus=GPUS[:1], share=0.5, action=ActionClass.PACK))
    rig.speed, rig.fails = {}, "no room to save"
    rig.live(175)
    tries = [deed for deed in rig.journal.deeds(0) if "nobody is beside it" in deed.reason]
    assert [deed.result for deed in tries] == [Result.FAILED] * 2


@pytest.mark.parametrize("kept", ["by its owner", "by the mode", "by the switch"])
def test_who_is_left_alone_is_left_in_peace_where_that_is_asked(store: Store, kept: str) -> None:
    rig = Rig(store, replace(RESTED, modes={}) if kept == "by the mode" else RESTED)
    rig.do(Move(job=rig.host, gpus=GPUS[:1], share=0.5, action=ActionClass.PACK))
    if kept == "by its owner":
        hour_ms = rig.clock.now_ms() + 3_600_000
        rig.register.change(rig.host, lambda entry: replace(entry, keep_until_ms=hour_ms))
    rig.speed = {}
    rig.live(300, halt="stopped by root" if kept == "by the switch" else None)
    assert rig.register.entry(rig.host).share == 0.5


def test_without_a_free_gpu_the_guest_goes_back_into_the_queue(store: Store) -> None:
    rig = Rig(store, AUTO)
    rig.live(180)
    rig.pack()
    rig.gpus = GPUS[:1]
    rig.speed[rig.host] = 8.0
    rig.live(160)
    assert rig.register.entry(rig.guest).state is JobState.PENDING
    assert rig.register.entry(rig.host).share == 1.0


def test_a_restart_of_the_service_forgets_nothing_that_a_pair_needs(store: Store) -> None:
    rig = Rig(store, AUTO)
    rig.live(180)
    rig.pack()
    rig.speed[rig.host] = 8.0
    rig.live(100)
    rig.watching = rig.made()
    rig.live(160)
    assert rig.devices() == {"host": GPUS[:1], "guest": GPUS[1:2]}


def test_while_acting_is_stopped_it_is_noted_and_parted_afterwards(store: Store) -> None:
    rig = Rig(store, AUTO)
    rig.live(180)
    rig.pack()
    rig.speed[rig.host] = 8.0
    rig.live(180, halt="somebody stopped acting")
    assert rig.devices() == TOGETHER and rig.pairs()[0].undone
    rig.live(5)
    assert rig.devices() == {"host": GPUS[:1], "guest": GPUS[1:2]}


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.ADVISE])
def test_where_packing_is_not_done_nothing_is_undone(store: Store, mode: Mode) -> None:
    rig = Rig(store, Limits(modes={ActionClass.PACK: mode}))
    rig.live(180)
    rig.pack()
    rig.speed[rig.host] = 8.0
    rig.live(180)
    assert rig.devices() == TOGETHER


def test_who_was_never_measured_alone_is_not_judged(store: Store) -> None:
    rig = Rig(store, AUTO)
    rig.live(60)
    assert not rig.watching.remember(rig.state()).jobs[rig.host].paced
    rig.pack()
    rig.speed[rig.host] = 1.0
    rig.live(300)
    assert rig.devices() == TOGETHER and rig.pairs()[0].alone == (None, None)


def test_two_that_no_pack_put_together_are_nobodys_pair(store: Store) -> None:
    rig = Rig(store, AUTO)
    rig.live(180)
    moves = (Move(job=job, gpus=GPUS[:1], share=0.5) for job in (rig.host, rig.guest))
    rig.do(*moves)
    rig.speed[rig.host] = 8.0
    rig.live(180)
    assert rig.devices() == TOGETHER and rig.pairs() == ()


def test_what_is_learnt_comes_back_as_experience(store: Store) -> None:
    from advisor.jobs.slowdown_watchdog import experience_of
    from advisor.planner.pairing import choose_pairs

    rig = Rig(store, AUTO)
    rig.live(180)
    rig.pack()
    rig.speed = {rig.host: 8.0, rig.guest: 6.0}
    rig.live(180)
    known = experience_of(rig.pairs())["H100"]
    assert known.undone == {("anna/guest", "anna/host")}
    assert choose_pairs(["anna/host", "anna/guest"], known, PAIRING) == ()
    again = experience_of([replace(rig.pairs()[0], speeds=(0.95, 0.8), undone=False)])["H100"]
    (pair,) = choose_pairs(["anna/host", "anna/guest"], again, PAIRING)
    assert pair.measured and pair.gain == pytest.approx(0.75)
