"""The nouns of a job's course in its launcher: where it stands, what can happen, what is then to be done.

Pure values; ``course`` is the rule, ``running`` the hands. Times are seconds of a clock that never jumps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from advisor.jobs.model import (
    Command,
    Elasticity,
    ExitReason,
    JobState,
    ReallocateCommand,
    ResumeCommand,
    Sharing,
    StartCommand,
)
from collector.model import GpuUuid
from service.launcher.world import Workers


class Phase(StrEnum):
    """Where a job stands.

        WAITING ─Start─► STARTING ─► RUNNING ─Pause─► SAVING ─► ENDING ─► SWEEPING ─► PAUSED ─► STARTING
                                      │ ▲ ▲              └─ couldn't save: back to RUNNING
                                      │ │ └─ CHANGING, RELEASING: in place
                                      └─ a worker died ─► SWEEPING ─► RESTING ─► STARTING, or ENDED

    ENDING: workers were asked to end. SWEEPING: whatever they left is ended too, and only then is a GPU free.
    """

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    CHANGING = "changing"
    RELEASING = "releasing"
    SAVING = "saving"
    ENDING = "ending"
    SWEEPING = "sweeping"
    RESTING = "resting"
    PAUSED = "paused"
    ENDED = "ended"


STANDS: Mapping[Phase, JobState] = {
    Phase.WAITING: JobState.PENDING,
    Phase.STARTING: JobState.STARTING,
    Phase.PAUSED: JobState.PAUSED,
    Phase.ENDED: JobState.ENDED,
}
"""What is reported; a phase that isn't here is RUNNING."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Devices in rank order, and the environment that goes with them."""

    gpus: tuple[GpuUuid, ...]
    share: float = 1.0
    sharing: Sharing = Sharing.WHOLE
    memory_bytes: int | None = None
    settings: tuple[tuple[str, str], ...] = ()
    page: str = ""
    """Of a background job: where the job that holds the devices tells of its idle gaps. It holds none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What was agreed when the job was submitted, as far as its course depends on it."""

    mobility: Elasticity = Elasticity.RIGID
    workers: Workers = Workers.ONE
    grace_s: float = 60.0
    restarts: int = 0
    limit_s: float | None = None


# -- what follows once nothing of the job lives any more ---------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Be paused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """Wait for a new lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Be started with this lease."""

    lease: Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """Be over. ``code`` counts where no worker has one of its own; ``why`` is for people."""

    exit_reason: ExitReason
    code: int
    why: str = ""


Next = Pause | Requeue | Restart | Exit


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMachine:
    """A job as its launcher has it. ``launch`` counts its starts; what is said of an earlier one is void.

    ``doing`` is being carried out, ``queue`` comes after it; ``acknowledged`` is the newest one that was,
    ``failed`` why that didn't work, and ``proof`` what can be shown of it. ``asked`` is the user's signal to
    end it, which came at ``asked_s``.
    """

    terms: Terms
    phase: Phase = Phase.WAITING
    lease: Lease | None = None
    launch: int = 0
    pids: tuple[int, ...] = ()
    alive: frozenset[int] = frozenset()
    code: int = 0
    restarted: int = 0
    doing: Command | None = None
    queue: tuple[Command, ...] = ()
    acknowledged: int = 0
    failed: str | None = None
    proof: str = ""
    then: Next | None = None
    saved: bool = False
    asked: int | None = None
    asked_s: float = 0.0
    until_s: float | None = None
    ran_s: float = 0.0
    since_s: float | None = None
    over: Exit | None = None

    @property
    def state(self) -> JobState:
        """As it is reported."""
        return STANDS.get(self.phase, JobState.RUNNING)


# -- what happens ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCommand:
    """A directive came."""

    directive: Command


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """All workers of the launch run."""

    pids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotStarted:
    """The command can't be run. ``code`` is the shell's: 127 not found, 126 not executable; 75: not now."""

    why: str
    code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEnded:
    """A worker's exit code, or minus the signal that ended it."""

    worker: int
    code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """The job says that what it was to save is saved. ``ends_itself``: it is on its way out already."""

    ends_itself: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsaved:
    """It can't be asked to save, or said that it couldn't."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reallocated:
    """The controller has resized, or says why not; ``gpus`` are those it holds now."""

    gpus: tuple[GpuUuid, ...]
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReleased:
    """The job's library gave its caches back, or there is a reason why not."""

    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """Nothing that the workers started lives any more. ``by_force``: because their guard was killed."""

    by_force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Signalled:
    """Somebody sent the launcher a signal."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resubmitted:
    """The service had lost the job and took it anew: no directive of before counts. ``text`` says so."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedAway:
    """The service had lost the job and doesn't take it anew."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased:
    """The service's word on how the job stands since command ``number``, which came without any proof."""

    number: int
    proof: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Disowned:
    """The service says that this job has ended: its devices may be somebody else's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Time went by."""


Event = (
    NewCommand | Started | NotStarted | WorkerEnded | Saved | Unsaved | Reallocated | MemoryReleased | Swept
    | Signalled | Resubmitted | TurnedAway | Leased | Disowned | Tick
)  # fmt: skip


# -- what is then to be done -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start the workers on the course's lease; the answer is ``Started`` or ``NotStarted``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """Ask the job to save itself; the answer is ``Saved``, ``Unsaved``, or its workers' end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Ask the workers to end (SIGTERM)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """End everything that is left, killed when asking doesn't help; the answer is ``Swept``."""

    patience_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reallocate:
    """Have the controller hold exactly these devices; the answer is ``Reallocated``."""

    gpus: tuple[GpuUuid, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseMemory:
    """Have the job's library give cached memory back; the answer is ``MemoryReleased``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """Hand a signal on to the workers, unless they have it already."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """A line for the person at the job."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Announce:
    """Report to the service at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """All is done: report the end, and exit. ``code`` below 0: a signal's."""

    code: int


Action = Start | Save | End | Sweep | Reallocate | ReleaseMemory | Forward | Notify | Announce | Leave


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A course after an event, and what is to be done."""

    course: StateMachine
    actions: tuple[Action, ...] = field(default=())


def lease_of(command: StartCommand | ResumeCommand | ReallocateCommand) -> Lease:
    """What a directive grants."""
    return Lease(
        gpus=command.gpus,
        share=command.share,
        sharing=command.sharing,
        memory_bytes=command.memory_bytes,
        settings=command.settings,
        page=command.page if isinstance(command, StartCommand) else "",
    )
