"""A register on a real store, and launchers' words: what the tests of the register begin with."""

from dataclasses import replace
from pathlib import Path

from advisor.jobs.job_store import Register, open_register
from advisor.jobs.model import (
    Elasticity,
    JobRecord,
    JobState,
    Launcher,
    PauseCommand,
    Report,
    RequeueCommand,
    ResumeCommand,
    StartCommand,
    Submission,
)
from advisor.state.model import ProjectName
from collector.model import GpuUuid, NodeName
from collector.store.database import Store
from tests.stores import open_store

GPUS = tuple(GpuUuid(f"GPU-{n}") for n in range(4))
NODE = NodeName("here")
LAUNCHER = Launcher(node=NODE, pid=100, started_ms=1_000)


class HandClock:
    """A clock that stands still until somebody moves it."""

    def __init__(self, at_ms: int = 1_000_000) -> None:
        self.at_ms = at_ms
        self.steady_ms = 5_000

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ms(self) -> int:
        return self.steady_ms

    def sleep(self, seconds: float) -> None:
        self.pass_s(seconds)

    def pass_s(self, seconds: float) -> None:
        self.at_ms += round(seconds * 1000)
        self.steady_ms += round(seconds * 1000)


def submission(**changes: object) -> Submission:
    plain = Submission(
        command=("python", "train.py"),
        user="anna",
        uid=1000,
        project=ProjectName("vision"),
        mobility=Elasticity.CHECKPOINTS,
        max_gpus=4,
        preemptible=True,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def word(stand: JobState, handled: int = 0, **more: object) -> Report:
    plain = Report(at_ms=1_000_000, launcher=LAUNCHER, state=stand, acknowledged=handled)
    return replace(plain, **more)  # type: ignore[arg-type]


def opened(folder: Path, clock: HandClock) -> tuple[Store, Register]:
    store = open_store(folder / "fallow.duckdb")
    return store, open_register(store, clock)


def acknowledge(register: Register, entry: JobRecord, **more: object) -> JobRecord:
    """The launcher's word that it carried out whatever it was told."""
    directive = entry.directive
    assert directive is not None
    match directive:
        case PauseCommand():
            stand = JobState.PAUSED
        case RequeueCommand():
            stand = JobState.PENDING
        case StartCommand() | ResumeCommand():
            stand = JobState.RUNNING
        case _:
            stand = JobState.RUNNING
    return register.report(entry.id, word(stand, directive.number, **more))
