"""What the acting routes answer, as typed values that pages draw: a job, plans, actions, who may act.

Pure. An answer is checked once, here; a field that an older or newer service leaves out becomes ``None`` or
empty, never a guess. Times are UTC instants with their zone, ``None`` where nothing is known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

MS_PER_S = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whom the service takes the asker for; ``role`` is viewer, user or operator."""

    name: str
    uid: int | None = None
    role: str = "viewer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A directive: its number, its verb, the devices that it named, and when it was given and carried out."""

    number: int
    verb: str
    gpus: tuple[str, ...] = ()
    given: datetime | None = None
    acknowledged: datetime | None = None
    failed: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A row of the journal. ``outcome`` is ``None`` while it is being done; ``undo`` a shell command."""

    number: int
    at: datetime | None
    job: str
    verb: str
    actor: str
    reason: str = ""
    plan: int | None = None
    outcome: str | None = None
    found: str = ""
    settled: datetime | None = None
    undo: str | None = None
    no_undo: str | None = None
    undone_by: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A job that was submitted to Fallow, as the register has it. ``share`` is the part of each GPU."""

    job: str
    state: str
    name: str = ""
    user: str | None = None
    project: str | None = None
    command: tuple[str, ...] = ()
    folder: str = ""
    kind: str = ""
    mobility: str = ""
    min_gpus: int | None = None
    max_gpus: int | None = None
    share: float | None = None
    memory_bytes: int | None = None
    priority: int | None = None
    preemptible: bool | None = None
    restarts: int | None = None
    gpus: tuple[str, ...] = ()
    sharing: str = ""
    submitted: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None
    heard: datetime | None = None
    kept_until: datetime | None = None
    keep_count: int | None = None
    exit_reason: str | None = None
    exit_code: int | None = None
    message: str = ""
    held_by_user: bool = False
    directives: tuple[Told, ...] = ()
    actions: tuple[Action, ...] = ()
    explain: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """One step that waits for a yes."""

    n: int
    verb: str
    job: str
    gpus: tuple[str, ...] = ()
    sentence: str = ""
    reason: str = ""
    mode: str = ""
    user: str | None = None
    why: str = ""
    risk: str = ""
    expected_gain: object = None
    evidence: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Something that is not done: by which rule, why, and what would change it."""

    job: str
    action: str
    rule: str
    reason: str
    would_change: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """A plan; ``state`` is waiting, applied, rejected, expired or done."""

    plan: int
    as_of: datetime | None
    state: str
    steps: tuple[PlanStep, ...] = ()
    refused: tuple[Refused, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """Whether the service may act at all, who said so, and the modes by class of action."""

    acting: bool
    by: str | None = None
    at: datetime | None = None
    because: str = ""
    modes: Mapping[str, str] = field(default_factory=dict)
    project_modes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def caller_of(said: Mapping[str, Any]) -> Caller:
    """From ``GET /v1/whoami``."""
    return Caller(
        name=str(said.get("name") or "unknown"), uid=said.get("uid"), role=str(said.get("role") or "viewer")
    )


def action_of(row: Mapping[str, Any]) -> Action:
    """From a row of ``GET /v1/actions``."""
    return Action(
        number=int(row["action"]),
        at=instant(row.get("at_ms")),
        job=str(row.get("job") or ""),
        verb=str(row.get("verb") or ""),
        actor=str(row.get("actor") or ""),
        reason=str(row.get("reason") or ""),
        plan=row.get("plan"),
        outcome=row.get("outcome"),
        found=str(row.get("found") or ""),
        settled=instant(row.get("settled_ms")),
        undo=row.get("undo"),
        no_undo=row.get("no_undo"),
        undone_by=row.get("undone_by"),
    )


def told_of(row: Mapping[str, Any]) -> Told:
    """From one directive of ``GET /v1/jobs/{job}``; its body may be nested under ``directive``."""
    inner = row.get("directive")
    body: Mapping[str, Any] = inner if isinstance(inner, Mapping) else row
    return Told(
        number=int(body.get("number") or row.get("number") or 0),
        verb=str(row.get("verb") or ""),
        gpus=_texts(body.get("gpus")),
        given=instant(row.get("given_ms") or row.get("at_ms")),
        acknowledged=instant(row.get("acknowledged_ms")),
        failed=row.get("failed"),
        reason=str(body.get("reason") or body.get("message") or ""),
    )


def launched_of(row: Mapping[str, Any]) -> Launched:
    """From an entry of ``GET /v1/jobs`` or ``GET /v1/jobs/{job}``."""
    asked: Mapping[str, Any] = row.get("submission") or row
    return Launched(
        job=str(row.get("job") or row.get("id")),
        state=str(row.get("state") or "unknown"),
        name=str(asked.get("name") or ""),
        user=asked.get("user"),
        project=asked.get("project"),
        command=_texts(asked.get("command")),
        folder=str(asked.get("folder") or ""),
        kind=str(asked.get("kind") or ""),
        mobility=str(asked.get("mobility") or ""),
        min_gpus=asked.get("min_gpus"),
        max_gpus=asked.get("max_gpus"),
        share=asked.get("share"),
        memory_bytes=asked.get("memory_bytes"),
        priority=asked.get("priority"),
        preemptible=asked.get("preemptible"),
        restarts=asked.get("restarts"),
        gpus=_texts(row.get("gpus")),
        sharing=str(row.get("sharing") or ""),
        submitted=instant(row.get("submitted_ms")),
        started=instant(row.get("started_ms")),
        ended=instant(row.get("ended_ms")),
        heard=instant(row.get("last_seen_ms")),
        kept_until=instant(row.get("keep_until_ms")),
        keep_count=row.get("keep_count"),
        exit_reason=row.get("exit_reason"),
        exit_code=row.get("exit_code"),
        message=str(row.get("message") or ""),
        held_by_user=bool(row.get("held_by_user")),
        directives=tuple(told_of(each) for each in row.get("directives") or ()),
        actions=tuple(action_of(each) for each in row.get("actions") or ()),
        explain=_texts(row.get("explain")),
    )


def plan_of(row: Mapping[str, Any]) -> PlanRow:
    """From a row of ``GET /v1/plans``."""
    return PlanRow(
        plan=int(row["plan"]),
        as_of=instant(row.get("as_of_ms")),
        state=str(row.get("state") or ""),
        steps=tuple(_step_of(each) for each in row.get("steps") or ()),
        refused=tuple(_refused_of(each) for each in row.get("refused") or ()),
    )


def switch_of(said: Mapping[str, Any]) -> Switch:
    """From ``GET /v1/acting``."""
    return Switch(
        acting=bool(said.get("acting")),
        by=said.get("by"),
        at=instant(said.get("at_ms")),
        because=str(said.get("because") or ""),
        modes=_named(said.get("modes")),
        project_modes={str(name): _named(modes) for name, modes in (said.get("project_modes") or {}).items()},
    )


def instant(ms: object) -> datetime | None:
    """Milliseconds since the epoch as an instant; ``None`` stays ``None``."""
    if not isinstance(ms, int | float) or isinstance(ms, bool):
        return None
    return datetime.fromtimestamp(ms / MS_PER_S, UTC)


def _step_of(row: Mapping[str, Any]) -> PlanStep:
    held = row.get("evidence")
    return PlanStep(
        n=int(row.get("n") or 0),
        verb=str(row.get("verb") or ""),
        job=str(row.get("job") or ""),
        gpus=_texts(row.get("gpus")),
        sentence=str(row.get("sentence") or ""),
        reason=str(row.get("reason") or ""),
        mode=str(row.get("mode") or ""),
        user=row.get("user"),
        why=str(row.get("why") or ""),
        risk=str(row.get("risk") or ""),
        expected_gain=row.get("expected_gain"),
        evidence=dict(held) if isinstance(held, Mapping) else {},
    )


def _refused_of(row: Mapping[str, Any]) -> Refused:
    return Refused(
        job=str(row.get("job") or ""),
        action=str(row.get("action") or row.get("class") or ""),
        rule=str(row.get("rule") or row.get("refused") or ""),
        reason=str(row.get("reason") or ""),
        would_change=str(row.get("would_change") or ""),
    )


def _named(value: object) -> dict[str, str]:
    return {str(key): str(each) for key, each in value.items()} if isinstance(value, Mapping) else {}


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(str(each) for each in value) if isinstance(value, Sequence) else ()
