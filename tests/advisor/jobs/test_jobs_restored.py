"""A register from an older backup, under launchers that went on: what they prove counts, and no silence."""

import base64
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.jobs.claims import Unproven
from advisor.jobs.job_store import Register, open_register
from advisor.jobs.lifecycle import attained_gpu_s, in_flight, leased
from advisor.jobs.model import (
    CancelCommand,
    Command,
    Elasticity,
    ExitReason,
    JobRecord,
    JobState,
    NotifyCommand,
    PauseCommand,
    ReallocateCommand,
    StartCommand,
)
from advisor.jobs.signing import CommandProof, CommandSigner
from advisor.journal.journal import Order, StoreJournal
from collector.model import JobId
from collector.store.database import Store
from tests.advisor.jobs.job_store_world import GPUS, HandClock, acknowledge, submission, word
from tests.stores import open_store

SIGNER = CommandSigner(b"of a service that was here before")
OTHER = CommandSigner(b"of another service, or a lost key")


class World:
    """A service's folder, a backup of it, and what happened between the two."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, HandClock()
        self.store, self.register = self._opened(folder / "fallow.duckdb")
        self.doubts: list[Unproven] = []

    def back_up(self) -> None:
        """Copy the folder as it is now, and go on."""
        self.store.close()
        shutil.copy(self.folder / "fallow.duckdb", self.folder / "backup")
        self.store, self.register = self._opened(self.folder / "fallow.duckdb")

    def restore(self, signer: CommandSigner = SIGNER) -> Register:
        """Put the backup in its place, ten minutes later."""
        self.store.close()
        shutil.copy(self.folder / "backup", self.folder / "fallow.duckdb")
        return self.restart(signer)

    def restart(self, signer: CommandSigner = SIGNER) -> Register:
        self.store.close()
        self.clock.pass_s(600)
        self.store, self.register = self._opened(self.folder / "fallow.duckdb", signer)
        self.register.doubt = lambda entry, report, claim: self.doubts.append(claim)
        return self.register

    def runs(self, nonce: str, number: int, gpus: tuple[str, ...], **changes: object) -> JobRecord:
        """A job that runs on these GPUs since order ``number``."""
        entry, _ = self.register.submit(submission(nonce=nonce, **changes))
        return acknowledge(
            self.register,
            self.register.give(entry.id, StartCommand(number=number, gpus=gpus)),  # type: ignore[arg-type]
        )

    def does(self, job: JobId, directive: Command) -> str:
        """Have it told, and carried out; what its launcher can show of that."""
        entry = self.register.give(job, directive)
        assert entry.directive is not None and entry.directive.proof
        acknowledge(self.register, entry, proof=entry.directive.proof)
        return entry.directive.proof

    def _opened(self, path: Path, signer: CommandSigner = SIGNER) -> tuple[Store, Register]:
        store = open_store(path)
        return store, open_register(store, self.clock, signer)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def job(world: World) -> JobId:
    """A job that runs on the first GPU, as the backup has it."""
    entry = world.runs("one", 3, GPUS[:1])
    world.back_up()
    return entry.id


def test_a_job_stands_where_its_launcher_proves_that_it_does(world: World, job: JobId) -> None:
    moved = world.does(job, ReallocateCommand(number=9, gpus=GPUS[2:4]))
    paused = world.does(job, PauseCommand(number=10))
    register = world.restore()
    found = register.report(job, word(JobState.RUNNING, 9, gpus=GPUS[2:4], proof=moved))
    assert (found.state, found.gpus, found.acknowledged) == (JobState.RUNNING, GPUS[2:4], 9)
    assert set(register.holders()) == set(GPUS[2:4])
    assert attained_gpu_s(found, world.clock.now_ms()) == pytest.approx(600)
    found = register.report(job, word(JobState.PAUSED, 10, proof=paused))
    assert (found.state, found.gpus, found.paused_on) == (JobState.PAUSED, (), GPUS[2:4])
    assert register.holders() == {} and world.doubts == []


@pytest.mark.parametrize("number", [4, 9, 500, 2**53, 2**63 - 1])
def test_nobody_takes_a_gpu_or_lifts_a_number_by_a_word_alone(world: World, job: JobId, number: int) -> None:
    waiting, _ = world.register.submit(submission(nonce="waits"))
    register = world.restart()
    for id, before in ((job, (JobState.RUNNING, GPUS[:1])), (waiting.id, (JobState.PENDING, ()))):
        register.met(id, number)
        found = register.report(id, word(JobState.RUNNING, number, gpus=GPUS[1:3]))
        assert (found.state, found.gpus) == before and found.acknowledged <= 3
        assert id in register.absent(20), "nothing that it would take for known is asked of it"
    assert register.holders() == {GPUS[0]: {job: 1.0}}
    assert [each.is_ahead for each in world.doubts] == [True, True]
    journal = StoreJournal(world.store, world.clock, above=register.newest_known)
    order = Order(job=job, verb="hold", reason="", no_undo="none")
    assert journal.ordered(world.clock.now_ms(), order, "anna") == 4


def test_what_is_shown_is_the_services_own_word_to_just_this_job_and_nothing_else(
    world: World, job: JobId
) -> None:
    other, _ = world.register.submit(submission(nonce="waits"))
    world.back_up()
    shown = world.does(job, ReallocateCommand(number=9, gpus=GPUS[2:3]))
    register = world.restore()
    said, _, mac = shown.partition(".")
    other_words = base64.urlsafe_b64encode(base64.urlsafe_b64decode(said).replace(b"GPU-2", b"GPU-1"))
    forged = (
        "",
        mac,
        f".{mac}",
        f"{said}.{'0' * 64}",
        f"{said}.",
        f"{other_words.decode()}.{mac}",
        OTHER.proof(world.register.entry(job), CommandProof(number=9, kind="start", gpus=GPUS[2:3])),
        SIGNER.proof(other, CommandProof(number=9, kind="start", gpus=GPUS[2:3])),
    )
    for proof in forged:
        found = register.report(job, word(JobState.RUNNING, 9, gpus=GPUS[2:3], proof=proof))
        assert (found.gpus, register.newest_known()) == (GPUS[:1], 0)
    found = register.report(other.id, word(JobState.RUNNING, 9, gpus=GPUS[2:3], proof=shown))
    assert (found.state, found.gpus) == (JobState.PENDING, ())
    for gpus in (GPUS[1:2], GPUS[2:4], GPUS[2:3] * 2, ()):
        found = register.report(job, word(JobState.RUNNING, 9, gpus=gpus, proof=shown))
        assert found.gpus == GPUS[:1], "no more, and no other, than that order says"
    assert len(world.doubts) == len(forged) + 5
    assert register.report(job, word(JobState.RUNNING, 9, gpus=GPUS[2:3], proof=shown)).gpus == GPUS[2:3]


def test_a_lease_that_was_over_before_the_backup_was_put_back_is_nothing_to_show(
    world: World, job: JobId
) -> None:
    """It had the second GPU, and let it go for the third: only the newest order says what it holds."""
    world.does(job, ReallocateCommand(number=8, gpus=GPUS[1:2]))
    moved = world.does(job, ReallocateCommand(number=9, gpus=GPUS[2:3]))
    told = world.does(job, NotifyCommand(number=10, message="hello"))
    register = world.restore()
    found = register.report(job, word(JobState.RUNNING, 10, gpus=GPUS[1:2], proof=told))
    assert found.gpus == GPUS[:1]
    found = register.report(job, word(JobState.RUNNING, 10, gpus=GPUS[2:3], proof=told))
    assert found.gpus == GPUS[2:3], "a message changes nothing, and its proof says where the job was"
    found = register.report(job, word(JobState.RUNNING, 9, gpus=GPUS[1:2], proof=moved))
    assert found.gpus == GPUS[2:3]


def test_a_lost_key_proves_nothing_and_takes_nothing_away(world: World, job: JobId) -> None:
    moved = world.does(job, ReallocateCommand(number=9, gpus=GPUS[2:3]))
    register = world.restore(OTHER)
    found = register.report(job, word(JobState.RUNNING, 9, gpus=GPUS[2:3], proof=moved))
    assert (found.state, found.gpus) == (JobState.RUNNING, GPUS[:1])
    assert register.holders() == {GPUS[0]: {job: 1.0}}


def test_what_it_holds_since_the_backup_is_nobody_elses_and_what_it_let_go_is_free(
    world: World, job: JobId
) -> None:
    """The second job got the first one's GPU after that had moved: its lease is the newer one."""
    second, _ = world.register.submit(submission(nonce="two"))
    world.back_up()
    moved = world.does(job, ReallocateCommand(number=4, gpus=GPUS[1:2]))
    world.clock.pass_s(60)
    started = world.does(second.id, StartCommand(number=5, gpus=GPUS[:1]))
    register = world.restore()
    found = register.report(second.id, word(JobState.RUNNING, 5, gpus=GPUS[:1], proof=started))
    assert (found.state, found.gpus) == (JobState.RUNNING, GPUS[:1])
    assert register.holders() == {GPUS[0]: {second.id: 1.0}}
    assert "after the backup" in register.entry(job).message
    stale = register.report(job, word(JobState.RUNNING, 3, gpus=GPUS[:1]))
    assert stale.gpus == () and register.holders() == {GPUS[0]: {second.id: 1.0}}
    found = register.report(job, word(JobState.RUNNING, 4, gpus=GPUS[1:2], proof=moved))
    assert (found.state, found.gpus) == (JobState.RUNNING, GPUS[1:2])
    world.restart()
    assert {uuid: set(jobs) for uuid, jobs in world.register.holders().items()} == {
        GPUS[0]: {second.id},
        GPUS[1]: {job},
    }


def test_what_was_given_since_the_opening_stays_whatever_is_shown(world: World, job: JobId) -> None:
    moved = world.does(job, ReallocateCommand(number=4, gpus=GPUS[1:2]))
    register = world.restore()
    new, _ = register.submit(submission(nonce="new"))
    register.give(new.id, StartCommand(number=4, gpus=GPUS[1:2]))
    found = register.report(job, word(JobState.RUNNING, 4, gpus=GPUS[1:2], proof=moved))
    assert found.gpus == GPUS[:1] and set(register.holders()[GPUS[1]]) == {new.id}
    assert new.id in world.doubts[-1].why


def test_a_submission_that_comes_again_is_another_job(world: World) -> None:
    """Number and nonce can come again after a restore; when it was submitted does not."""
    world.back_up()
    entry = world.runs("same", 3, GPUS[:1])
    assert entry.directive is not None
    proof = entry.directive.proof
    register = world.restore()
    again, _ = register.submit(submission(nonce="same"))
    register = world.restart()
    found = register.report(again.id, word(JobState.RUNNING, 3, gpus=GPUS[:1], proof=proof))
    assert (again.id, found.state, found.gpus) == (entry.id, JobState.PENDING, ())


def test_an_order_under_a_number_that_its_launcher_knows_is_not_taken_for_done(
    world: World, job: JobId
) -> None:
    """It would be believed off its GPUs, which somebody else would get."""
    told = world.does(job, NotifyCommand(number=4, message="hello"))
    register = world.restore()
    register.give(job, PauseCommand(number=4, reason="make room"))
    found = register.report(job, word(JobState.RUNNING, 4, gpus=GPUS[:1], proof=told))
    assert (found.state, leased(found), in_flight(found)) == (JobState.RUNNING, GPUS[:1], False)
    assert "older backup" in (found.failed or "")
    again = register.give(job, PauseCommand(number=5))
    assert again.directive is not None
    assert acknowledge(register, again, proof=again.directive.proof).state is JobState.PAUSED


@pytest.mark.parametrize("known", [4, 5, 9])
def test_nor_is_it_where_its_launcher_is_of_a_fallow_that_shows_nothing(
    world: World, job: JobId, known: int
) -> None:
    register = world.restart()
    register.give(job, PauseCommand(number=4, reason="make room"))
    register.met(job, known)
    found = register.report(job, word(JobState.RUNNING, known, gpus=GPUS[:1]))
    assert (found.state, leased(found)) == (JobState.RUNNING, GPUS[:1])
    if known == 4:
        assert "older backup" in (found.failed or "") and not in_flight(found)
    else:
        assert in_flight(found) and job in register.absent(20), "nobody knows what it did"


def test_a_report_that_comes_before_anybody_listens_acknowledges_nothing(world: World, job: JobId) -> None:
    register = world.restart()
    register.give(job, CancelCommand(number=4))
    found = register.report(job, word(JobState.RUNNING, 4, gpus=GPUS[:1]))
    assert (found.state, found.gpus) == (JobState.RUNNING, GPUS[:1])


def test_what_was_given_before_its_launcher_came_back_is_carried_out(world: World, job: JobId) -> None:
    """After a mere restart nothing is given again."""
    register = world.restart()
    told = register.give(job, PauseCommand(number=4))
    register.met(job, 3)
    assert acknowledge(register, told).state is JobState.PAUSED


def test_numbers_go_on_above_what_launchers_prove(world: World, job: JobId) -> None:
    shown = world.does(job, ReallocateCommand(number=40, gpus=GPUS[1:2]))
    register = world.restore()
    journal = StoreJournal(world.store, world.clock, above=register.newest_known)
    order = Order(job=job, verb="hold", reason="", no_undo="none")
    assert journal.ordered(world.clock.now_ms(), order, "anna") == 4
    register.met(job, 40)
    assert job in register.absent(20)
    register.report(job, word(JobState.RUNNING, 40, gpus=GPUS[1:2], proof=shown))
    assert job not in register.absent(20)
    assert journal.ordered(world.clock.now_ms(), order, "anna") == 41


def test_a_launcher_of_an_older_fallow_is_given_what_it_can_show_later(world: World) -> None:
    """At an upgrade its commands bear no proof: how its job stands is told to it, with the service's MAC."""
    waiting, _ = world.register.submit(submission(nonce="old"))
    world.back_up()
    world.register.met(waiting.id, 0)
    begun = world.register.give(waiting.id, StartCommand(number=3, gpus=GPUS[:1]))
    assert begun.directive is not None
    unsigned = replace(begun, directive=replace(begun.directive, proof=""), leased_ms=None, placed_ms=None)
    acknowledge(world.register, world.register.change(waiting.id, lambda _: unsigned))
    lease = world.register.lease(waiting.id)
    assert lease is not None and lease[0] == 3
    world.does(waiting.id, NotifyCommand(number=4, message="hello"))
    assert world.register.lease(waiting.id) is None, "its newest command bears its own"
    register = world.restore()
    assert register.report(waiting.id, word(JobState.RUNNING, 3, gpus=GPUS[:1])).gpus == ()
    assert (
        register.report(waiting.id, word(JobState.RUNNING, 3, gpus=GPUS[:1], proof=lease[1])).gpus == GPUS[:1]
    )


def test_an_end_counts_whatever_number_it_comes_with(world: World, job: JobId) -> None:
    register = world.restart()
    ended = register.report(job, word(JobState.ENDED, 77, exit_reason=ExitReason.DONE, exit_code=0))
    assert (ended.state, leased(ended), register.holders()) == (JobState.ENDED, (), {})


def test_a_rigid_job_whose_lease_is_over_waits_anew(world: World) -> None:
    rigid = world.runs("rigid", 3, GPUS[:1], mobility=Elasticity.RIGID, max_gpus=1, preemptible=False)
    second, _ = world.register.submit(submission(nonce="two"))
    world.back_up()
    world.register.report(rigid.id, word(JobState.ENDED, 3, exit_reason=ExitReason.DONE))
    world.clock.pass_s(60)
    started = world.does(second.id, StartCommand(number=5, gpus=GPUS[:1]))
    register = world.restore()
    register.report(second.id, word(JobState.RUNNING, 5, gpus=GPUS[:1], proof=started))
    assert (register.entry(rigid.id).state, register.entry(rigid.id).gpus) == (JobState.PENDING, ())
