"""What the routes about queue, leases, consents, plans and the switch answer, and what came of an order.

As in ``service.schemas.records``: pure, times UTC milliseconds, ``None`` where nothing is known.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from service.schemas.answer import Answer, answer


@answer
class Taken(Answer):
    """A launcher's report was taken."""

    known: bool
    """True: the service knows the job."""


@answer
class Done(Answer):
    """What came of an order so far."""

    action: int | None = None
    """Its number in the journal; null where it stands in none."""
    outcome: str
    """done, under way, failed, stale or rejected."""
    message: str = ""
    """What came of it, for people."""


@answer
class StepOutcome(Answer):
    """What came of one step of a plan."""

    n: int
    """The step's number in its plan, from 1."""
    action: int | None = None
    """Its number in the journal; null where it was not begun."""
    outcome: str | None = None
    """done, failed, stale or unsupported; null while it is being done or not begun."""
    message: str = ""
    """What came of it, for people."""


@answer
class Applied(Done):
    """What came of a plan that was applied, or of an action that was undone."""

    steps: tuple[StepOutcome, ...] = ()
    """A row a step; empty where there was but one thing to do."""


@answer
class Rejected(Done):
    """A plan that was turned down."""

    snoozed_ms: int | None = None
    """Until when the same is not proposed again, UTC ms."""


@answer
class Consent(Answer):
    """Whether something may be done to a job, and by whose word."""

    job: str
    """The job."""
    name: str | None = None
    """What it is called."""
    user: str | None = None
    """Whose job it is."""
    kind: str
    """What may be done: pause, restart, resize, release or share."""
    allowed: bool
    """Whether it may."""
    origin: str
    """By whose word: owner, submission, site or nobody."""
    for_all: bool = False
    """Whether the owner said so of all own jobs."""
    said_ms: int | None = None
    """When the owner said so, UTC ms."""
    until_ms: int | None = None
    """Until when it holds, UTC ms; null: until something else is said."""


@answer
class Consented(Done):
    """What an owner's word came to."""

    rows: tuple[Consent, ...] = ()
    """What holds of the job now; empty where it was about all own jobs."""


@answer
class Waiting(Answer):
    """A job that waits."""

    job: str
    """The job."""
    name: str = ""
    """What it is called."""
    user: str | None = None
    """Whose job it is."""
    project: str | None = None
    """The project that its GPUs count for."""
    gpus: float = 0.0
    """GPUs that it starts on at the least, shares counted as parts."""
    max_gpus: float = 0.0
    """GPUs that it can use at the most, shares counted as parts."""
    place: int
    """Its place in the queue, from 1."""
    waits_for: str = ""
    """What it waits for, for people."""
    since_ms: int | None = None
    """Since when it waits, UTC ms."""
    promised_ms: int | None = None
    """When it will start at the latest, UTC ms; null where nothing is promised."""


@answer
class Engine(Answer):
    """What is done to jobs of one kind at all; what can be done to one of them now is in its own answer."""

    name: str
    """launched, slurm or external."""
    jobs: str
    """Whose these are, for people."""
    chooser: str | None = None
    """Who chooses the GPUs of such a job; null: it keeps those that it has."""
    can: tuple[str, ...] = ()
    """The verbs that are done to them where mode and owner allow it."""
    cannot: Mapping[str, str] = field(default_factory=dict)
    """The verbs that never are, each with the reason."""


@answer
class Lease(Answer):
    """A GPU that was given to a job."""

    job: str
    """The job."""
    gpu: str
    """The UUID of the GPU or MIG instance."""
    share: float
    """The part of it that was given, above 0 to 1."""
    since_ms: int | None = None
    """Since when, UTC ms."""
    node: str | None = None
    """The machine that the GPU is in; null where it is not seen now."""
    part_of_device: float | None = None
    """Of a MIG instance, the part of its GPU that it is, above 0 to 1."""
    user: str | None = None
    """Whose job it is."""
    project: str | None = None
    """The project that it counts for."""
    sharing: str | None = None
    """What keeps sharers apart: whole, mig, mps or time-sliced."""


@answer
class Gain(Answer):
    """What a step is expected to give back."""

    gpu_hours: float
    """GPU-hours."""
    horizon_s: float | None = None
    """Within so many seconds."""


@answer
class PlanStep(Answer):
    """One step of a plan."""

    n: int
    """Its number in the plan, from 1."""
    verb: str = ""
    """What is done, in a word: ``pause``."""
    job: str = ""
    """The job that it is done to."""
    gpus: tuple[str, ...] = ()
    """UUIDs of the GPUs that it is given."""
    sentence: str = ""
    """The step in a line, for people."""
    reason: str = ""
    """Why, for the job's owner."""
    mode: str = ""
    """How far this class of action goes: off, advise, ask or auto."""
    user: str | None = None
    """Whose job it is."""
    project: str | None = None
    """The project that it counts for."""
    expected_gain: Gain | None = None
    """What it is expected to give back; null where no policy reckoned it."""
    why: str = ""
    """Why, with figures, for people."""
    risk: str = ""
    """What could be lost, for people."""
    evidence: Mapping[str, object] = field(default_factory=dict)
    """The figures that it rests on, by name; their names are the policies' own."""


@answer
class StepEffect(Answer):
    """One thing that a step would do to the world."""

    kind: str
    """What is touched: command, signal, lease, environment, memory, message or record."""
    text: str
    """What would be done, for people."""


@answer
class TriedStep(Answer):
    """One step of a plan that was tried and not done."""

    n: int
    """Its number in the plan, from 1."""
    verb: str
    """What would be done, in a word: ``pause``."""
    job: str
    """The job that it would be done to."""
    user: str | None = None
    """Whose job it is."""
    gpus: tuple[str, ...] = ()
    """UUIDs of the GPUs that it would be given."""
    reason: str = ""
    """Why, for the job's owner."""
    engine: str = ""
    """The engine that would do it; empty where none does such a thing to this job."""
    outcome: str
    """done: by itself; ask: after a yes; refused, stale or unsupported: not, and its message says why."""
    message: str = ""
    """Why it would not be done, for people."""
    effects: tuple[StepEffect, ...] | None = None
    """What it would do, in order; null where its engine cannot say beforehand, or would not begin it."""


@answer
class PlanTrial(Answer):
    """The plan that would be made now, each step tried in turn; nothing was done or written down."""

    as_of_ms: int
    """The moment that it was made for, UTC ms."""
    halted: str | None = None
    """Why nothing is done at present, whatever the plan; null where the service acts."""
    steps: tuple[TriedStep, ...] = ()
    """The steps, in order."""


@answer
class Refused(Answer):
    """Something that is not done: by which rule, why, and what would change it."""

    job: str
    """The job that it would have been done to."""
    action: str = ""
    """The class of action."""
    rule: str = ""
    """The rule that says no."""
    reason: str = ""
    """Why, for people."""
    would_change: str = ""
    """What would change it, for people."""


@answer
class Plan(Answer):
    """A plan that was made, and what became of it."""

    plan: int
    """Its number."""
    as_of_ms: int | None = None
    """The moment that it was made for, UTC ms."""
    state: str = ""
    """waiting, applied, rejected, expired or done."""
    steps: tuple[PlanStep, ...] = ()
    """What it would do, in order."""
    refused: tuple[Refused, ...] = ()
    """What it would not do."""
    settled_ms: int | None = None
    """When it was applied, rejected or expired, UTC ms; null while it waits."""
    settled_by: str | None = None
    """Who settled it."""
    because: str | None = None
    """Why it was turned down."""
    snoozed_ms: int | None = None
    """Until when the same is not proposed again, UTC ms."""
    apply: str | None = None
    """The shell command that does it; null where it does not wait any more."""


@answer
class Switch(Answer):
    """Whether the service acts, who said so, and how far each class of action goes."""

    acting: bool
    """Whether anything is done at all."""
    by: str | None = None
    """Who stopped or started it; null where nobody ever did."""
    at_ms: int | None = None
    """When, UTC ms."""
    because: str = ""
    """Why, for people."""
    modes: Mapping[str, Literal["off", "advise", "ask", "auto"]] = field(default_factory=dict)
    """How far each class of action goes by itself."""
    project_modes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The same by project, where a project has its own."""
    cycle_s: float | None = None
    """Seconds that the newest planning cycle took; null before the first."""
