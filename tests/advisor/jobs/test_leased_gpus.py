"""No GPU is leased beyond what there is of it: not by an order, a claim or a restart, nor by an old store."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.jobs import lifecycle
from advisor.jobs.claims import Unproven
from advisor.jobs.command_numbers import Numbers
from advisor.jobs.job_store import open_register
from advisor.jobs.leased_gpus import Devices, Taken, overfull
from advisor.jobs.lifecycle import in_flight
from advisor.jobs.model import (
    CancelCommand,
    Command,
    JobRecord,
    JobState,
    PauseCommand,
    ReallocateCommand,
    Report,
    ResumeCommand,
    StartCommand,
)
from advisor.jobs.report_review import Reviewer
from advisor.jobs.repository import Change, read_leases, write_changes
from advisor.jobs.signing import CommandSigner
from collector.model import GpuUuid, JobId
from tests.advisor.jobs.job_store_world import GPUS, HandClock, acknowledge, opened, submission, word
from tests.stores import open_store

SIGNER = CommandSigner(b"thirty-two bytes and some more of them")
JOBS = tuple(JobId(f"fallow:{n}") for n in range(1, 4))


class Leases:
    """A register without its store: what it holds, its backups, and all that launchers could ever show."""

    def __init__(self) -> None:
        self.now_ms, self.number = 1_000, 0
        wanted = submission(may_share=True)
        self.entries = {
            job: lifecycle.submitted(job, replace(wanted, nonce=job), self.now_ms) for job in JOBS
        }
        self.backup = dict(self.entries)
        self.shown: list[tuple[JobId, str]] = []
        self.open(self.entries)

    def open(self, entries: dict[JobId, JobRecord]) -> None:
        """A restart, or a restore where these are of a backup."""
        self.entries = dict(entries)
        given = max((0 if e.directive is None else e.directive.number for e in entries.values()), default=0)
        self.number = max(given, self.number if entries is self.entries else 0)
        self.numbers = Numbers(self.entries.values(), given)
        self.devices = Devices(self.entries.values(), lambda uuid: False)
        self.reviewer = Reviewer(SIGNER, self.numbers, self.devices)

    def give(self, job: JobId, directive: Command) -> None:
        entry = self.entries[job]
        signed = SIGNER.signed(entry, directive, self.now_ms)
        try:
            after = lifecycle.with_command(entry, signed, self.now_ms)
            self.devices.change(entry, after)
        except lifecycle.Refused:
            return
        self.numbers.give(job, directive.number)
        self.entries[job] = after
        self.shown.append((job, signed.proof))

    def report(
        self, job: JobId, stand: JobState, proof: str, gpus: tuple[GpuUuid, ...] | None = None
    ) -> None:
        """What was carried out is the command of the proof, and its GPUs are held, if it names no others."""
        said = SIGNER.read(self.entries[job], proof)
        number, own = (99, ()) if said is None else (said.number, said.gpus)
        report = word(stand, number, gpus=own if gpus is None else gpus, proof=proof)
        self.take(job, report)

    def take(self, job: JobId, said: Report) -> None:
        found = self.reviewer.review(self.entries[job], said, self.entries, self.now_ms)
        for old, new in (*found.displaced, (self.entries[job], found.after)):
            self.devices.change(old, new)
            self.entries[new.id] = new


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["give", "give", "obey", "obey", "claim", "claim", "forge", "restart", "restore", "keep"]
        ),
        st.integers(0, 20),
        st.sets(st.integers(0, 2), min_size=1, max_size=2),
        st.sampled_from([1.0, 1.0, 0.5]),
    ),
    min_size=5,
    max_size=40,
)


@pytest.mark.slow
@settings(max_examples=150)
@given(steps=STEPS)
def test_a_gpu_is_never_leased_twice_whoever_says_what(
    steps: list[tuple[str, int, set[int], float]],
) -> None:
    leases = Leases()
    for what, who, some, share in steps:
        job, gpus = JOBS[who % 3], tuple(GPUS[n] for n in sorted(some))
        entry = leases.entries[job]
        leases.now_ms += 1_000
        match what:
            case "give":
                leases.give(job, next_order(leases, entry, gpus, share))
            case "obey" if in_flight(entry) and entry.directive is not None and entry.directive.proof:
                stand = JobState.PAUSED if isinstance(entry.directive, PauseCommand) else JobState.RUNNING
                leases.report(job, stand, entry.directive.proof)
            case "claim" if leases.shown:
                whose, proof = leases.shown[who % len(leases.shown)]
                leases.report(whose, JobState.RUNNING, proof, gpus if share < 1 else None)
            case "forge":
                leases.report(job, JobState.RUNNING, "not.proven", gpus)
            case "restart":
                leases.open(leases.entries)
            case "restore":
                leases.open(leases.backup)
            case "keep":
                leases.backup = dict(leases.entries)
        assert overfull(leases.entries) == {}
        assert {uuid: set(jobs) for uuid, jobs in leases.devices.holders().items()} == {
            uuid: {e.id for e in leases.entries.values() if uuid in lifecycle.leased(e)}
            for uuid in {uuid for e in leases.entries.values() for uuid in lifecycle.leased(e)}
        }


def next_order(leases: Leases, entry: JobRecord, gpus: tuple[GpuUuid, ...], share: float) -> Command:
    leases.number = number = max(leases.number, leases.numbers.newest_known()) + 1
    match entry.state:
        case JobState.RUNNING if share < 1:
            return PauseCommand(number=number)
        case JobState.RUNNING:
            return ReallocateCommand(number=number, gpus=gpus)
        case JobState.PAUSED:
            return ResumeCommand(number=number, gpus=gpus, share=share)
        case _:
            return StartCommand(number=number, gpus=gpus, share=share)


def test_the_property_above_sees_leases_that_are_honoured_displaced_and_refused() -> None:
    """What it rests on happens: else it would hold of a register that believes nobody."""
    leases = Leases()
    one, two, _ = JOBS
    leases.give(one, StartCommand(number=1, gpus=GPUS[:1]))
    leases.report(one, JobState.RUNNING, leases.shown[0][1])
    leases.backup = dict(leases.entries)
    leases.now_ms += 1_000
    leases.give(one, CancelCommand(number=2))
    leases.report(one, JobState.PAUSED, leases.shown[1][1])
    leases.give(two, StartCommand(number=3, gpus=GPUS[:1]))
    leases.open(leases.backup)
    leases.report(two, JobState.RUNNING, leases.shown[2][1])
    assert leases.devices.holders() == {GPUS[0]: {two: 1.0}}
    leases.report(one, JobState.RUNNING, leases.shown[0][1])
    assert leases.devices.holders() == {GPUS[0]: {two: 1.0}}


def test_no_change_of_an_entry_takes_what_another_holds(tmp_path: Path) -> None:
    """Whatever a caller makes of an entry: the write itself is refused, and nothing of it stays."""
    store, register = opened(tmp_path, HandClock())
    one, two = (register.submit(submission(nonce=n))[0].id for n in "ab")
    acknowledge(register, register.give(one, StartCommand(number=1, gpus=GPUS[:2])))
    with pytest.raises(Taken, match=one):
        register.change(two, lambda entry: replace(entry, state=JobState.RUNNING, gpus=GPUS[1:3]))
    with pytest.raises(Taken):
        register.change_all((one, two), lambda entry: replace(entry, state=JobState.RUNNING, gpus=GPUS[:2]))
    assert register.entry(two).gpus == () and set(register.holders()) == set(GPUS[:2])
    assert {row["job"] for row in read_leases(store)} == {one}
    acknowledge(register, register.give(two, StartCommand(number=2, gpus=GPUS[2:3])))
    store.close()


def test_a_store_that_has_two_leases_of_a_gpu_is_opened_with_the_one_that_was_given(tmp_path: Path) -> None:
    """As a Fallow before decision 37 could leave it, which believed a launcher's word."""
    clock = HandClock()
    store, register = opened(tmp_path, clock)
    given, claimed = (register.submit(submission(nonce=n))[0].id for n in "ab")
    honest = acknowledge(register, register.give(given, StartCommand(number=1, gpus=GPUS[:2])))
    liar = register.entry(claimed)
    word_taken = replace(
        liar, state=JobState.RUNNING, gpus=GPUS[1:3], acknowledged=2**53, started_ms=clock.now_ms()
    )
    write_changes(store, [Change(before=liar, after=word_taken)], clock.now_ms())
    store.close()
    store = open_store(tmp_path / "fallow.duckdb")
    register = open_register(store, clock)
    assert register.entry(given).gpus == honest.gpus
    assert (register.entry(claimed).gpus, register.entry(claimed).state) == ((), JobState.PAUSED)
    (double,) = register.doubles
    assert (double.entry.id, double.gpu, double.stays) == (claimed, GPUS[1], given)
    assert sorted((row["gpu"], row["job"]) for row in read_leases(store)) == [
        (GPUS[0], given),
        (GPUS[1], given),
    ]
    store.close()


def test_who_claims_without_proof_is_told_of(tmp_path: Path) -> None:
    store, register = opened(tmp_path, HandClock())
    doubts: list[tuple[JobId, Unproven]] = []
    register.doubt = lambda entry, report, claim: doubts.append((entry.id, claim))
    job = register.submit(submission())[0].id
    register.report(job, word(JobState.RUNNING, 0, gpus=GPUS[:1]))
    register.report(job, word(JobState.RUNNING, 5, gpus=GPUS[:1]))
    assert [(each, claim.is_ahead) for each, claim in doubts] == [(job, False), (job, True)]
    assert GPUS[0] in doubts[0][1].why and "order 5" in doubts[1][1].why
    assert register.heard_again(job, word(JobState.RUNNING, 5, gpus=GPUS[:1])) is None, "that is no mere life"
    store.close()
