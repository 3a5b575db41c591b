"""What may stand in a request's body: every field with its bounds, and an unknown field is refused.

The check is made here once; behind it, types are trusted. What a name may hold is ``service.names``' to say.
What only people read (the command, its folder, why something failed) is kept with what cannot be seen written
out, because nobody should be unable to start a job for an odd argument.
"""

from collections.abc import Sized
from functools import partial
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from advisor.jobs.model import (
    Elasticity,
    Submission,
)
from advisor.planner.consent import Kind
from advisor.state.model import ActionClass, ProjectName, Topology
from collector.model import JobId, JobKind, NodeName
from service import names
from service.control.interface import Caller, OwnWord

NODE = "^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$"
JOB = "^[A-Za-z0-9][A-Za-z0-9:/@._-]{0,252}$"
SUBMITTED_JOB = "^fallow:[0-9]{1,18}$"
DEVICE = "^[A-Za-z0-9][A-Za-z0-9/._-]{0,127}$"
SENTENCE = "^[^\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]*$"
NONCE = "^[A-Za-z0-9_-]*$"
PROOF = "^[A-Za-z0-9_.=-]*$"
PAGE = "^/[A-Za-z0-9._:/@+-]{1,255}$"
MEANT = {
    NODE: "the name of a machine: letters, digits, '.', '_' and '-', at most 253 of them",
    JOB: "the id of a job: letters, digits and ':/@._-', at most 253 of them",
    DEVICE: "the UUID of a GPU or MIG instance: letters, digits and '/._-', at most 128 of them",
    SENTENCE: "one line of text, without characters that cannot be seen",
    NONCE: "letters, digits, '_' and '-'",
    PROOF: "a proof as the service gave it",
    PAGE: "the absolute path of a page of idle gaps",
}
"""What each pattern asks for, in words."""

MOST_MS = 2**53
MOST_NUMBER = 2**63 - 1
"""What the store's column holds; the numbers of orders are the service's own."""
MOST_BYTES = 2**50
MOST_GPUS = 1024
MOST_PROOF = 2**18
"""Characters of a proof: it names each GPU that its job had and was to get, of ``MOST_GPUS`` each."""
MOST_UNKNOWN = 16
"""Unknown fields of a body that are named to its sender; with more, none is looked at."""
YEAR_S = 366 * 86_400.0
MOST_COMMAND = 8_192
"""Characters of a command that are kept: it is for people to read, only the launcher runs it."""

Whole = Annotated[int, Field(strict=True)]
Moment = Annotated[int, Field(strict=True, ge=0, le=MOST_MS)]
Ordinal = Annotated[int, Field(strict=True, ge=0, le=MOST_NUMBER)]
Number = Annotated[float, Field(strict=True, ge=0, le=1e15, allow_inf_nan=False)]
Text = Annotated[str, Field(strict=True)]
Truth = Annotated[bool, Field(strict=True)]
Said = Annotated[str, Field(strict=True, max_length=2_000)]
Because = Annotated[str, Field(strict=True, max_length=1_000, pattern=SENTENCE)]
Device = Annotated[str, Field(strict=True, pattern=DEVICE)]
Signal = Literal["USR1", "USR2", "HUP", "INT", "TERM", "ALRM", "WINCH"]


def _checked_name(rule: names.Rule, text: str) -> str:
    """A name as it is kept."""
    why = names.objection(text, rule)
    if why is not None:
        raise PydanticCustomError("name", "{why}", {"why": why})
    return names.composed(text)


def _shape(rule: names.Rule, *, or_none: bool = False) -> WithJsonSchema:
    """How the document says a rule: by a pattern within ASCII, by words beyond."""
    first, later = (f"([A-Za-z0-9_{signs}]|[^\\x00-\\x7f])" for signs in ("", rule.signs))
    return WithJsonSchema(
        {
            "type": "string",
            "minLength": 0 if or_none else 1,
            "maxLength": rule.longest,
            "pattern": f"^{first}{later}*$" + ("|^$" if or_none else ""),
            "description": f"{rule.asks}; nothing that cannot be seen, no space at the end",
        }
    )


Project = Annotated[
    str, Field(strict=True), AfterValidator(partial(_checked_name, names.PROJECT)), _shape(names.PROJECT)
]
Name = Annotated[
    str,
    Field(strict=True),
    AfterValidator(lambda text: text and _checked_name(names.NAME, text)),
    _shape(names.NAME, or_none=True),
]


def _count(value: Sized) -> dict[str, int]:
    return {"count": len(value)}


class Order(BaseModel):
    """A body: closed to fields that nobody knows."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, value: object) -> object:
        """A mistake for each of a body's hundred thousand fields would keep everybody waiting."""
        if isinstance(value, dict) and len(value) > len(cls.model_fields) + MOST_UNKNOWN:
            raise PydanticCustomError("fields", "{count} fields, of which most are unknown", _count(value))
        return value


class SubmissionOrder(Order):
    """A job for ``min_gpus`` to ``max_gpus`` devices, ``share`` of each; whose it is, the service knows."""

    command: Annotated[list[Text], Field(min_length=1, max_length=4_096)]
    project: Project
    name: Name = ""
    folder: Annotated[str, Field(strict=True, max_length=4_096)] = ""
    node: Annotated[str, Field(strict=True, pattern=NODE)] | None = None
    kind: JobKind = JobKind.BATCH
    min_gpus: Annotated[int, Field(strict=True, ge=1, le=MOST_GPUS)] = 1
    max_gpus: Annotated[int, Field(strict=True, ge=1, le=MOST_GPUS)] = 1
    share: Annotated[float, Field(strict=True, gt=0, le=1)] = 1.0
    memory_bytes: Annotated[int, Field(strict=True, ge=1, le=MOST_BYTES)] | None = None
    priority: Annotated[int, Field(strict=True, ge=-1000, le=1000)] = 0
    preemptible: Truth = False
    may_share: Truth = False
    mobility: Elasticity = Elasticity.RIGID
    checkpoint_signal: Signal | None = None
    grace_s: Annotated[float, Field(strict=True, ge=0, le=86_400)] = 60.0
    restarts: Annotated[int, Field(strict=True, ge=0, le=1000)] = 0
    memory_defaults: Truth = True
    gpu_models: Annotated[
        list[Annotated[str, Field(strict=True, min_length=1, max_length=64, pattern=SENTENCE)]],
        Field(max_length=16),
    ] = []
    topology: Topology = Topology.ANY
    limit_s: Annotated[float, Field(strict=True, gt=0, le=YEAR_S)] | None = None
    opted_out: Annotated[list[ActionClass], Field(max_length=16)] = []
    after: Annotated[
        list[Annotated[str, Field(strict=True, pattern=SUBMITTED_JOB)]], Field(max_length=64)
    ] = []
    nonce: Annotated[str, Field(strict=True, max_length=64, pattern=NONCE)] = ""
    background: Truth = False
    step_s_predicted: Annotated[
        dict[Annotated[str, Field(pattern="^[1-9][0-9]{0,3}$")], Number], Field(max_length=MOST_GPUS)
    ] = {}

    @model_validator(mode="after")
    def _holds_together(self) -> "SubmissionOrder":
        if self.max_gpus < self.min_gpus:
            raise ValueError(f"max_gpus is {self.max_gpus}, below min_gpus, which is {self.min_gpus}")
        if self.mobility is Elasticity.CHECKPOINTS and self.checkpoint_signal is None:
            raise ValueError("a job that checkpoints names the signal it does so on: checkpoint_signal")
        return self

    def submission(self, caller: Caller) -> Submission:
        """The same as the register keeps it; it is the caller's, whoever else is named."""
        return Submission(
            command=shortened(self.command),
            user=caller.name,
            uid=caller.uid,
            project=ProjectName(self.project),
            name=self.name,
            folder=shown(self.folder),
            node=None if self.node is None else NodeName(self.node),
            kind=self.kind,
            min_gpus=self.min_gpus,
            max_gpus=self.max_gpus,
            share=self.share,
            memory_bytes=self.memory_bytes,
            priority=self.priority,
            preemptible=self.preemptible,
            may_share=self.may_share,
            mobility=self.mobility,
            checkpoint_signal=self.checkpoint_signal,
            grace_s=self.grace_s,
            restarts=self.restarts,
            memory_defaults=self.memory_defaults,
            gpu_models=tuple(self.gpu_models),
            topology=self.topology,
            after=tuple(JobId(job) for job in dict.fromkeys(self.after)),
            limit_s=self.limit_s,
            opted_out=frozenset(self.opted_out),
            nonce=self.nonce,
            background=self.background,
            step_s_predicted={int(n): step_s for n, step_s in self.step_s_predicted.items() if step_s > 0},
        )


class ReasonOrder(Order):
    """An order that needs nothing but, perhaps, a reason."""

    because: Because = ""


class CancelOrder(ReasonOrder):
    """End it; with ``force`` its lease too, whatever its launcher and processes do (operators)."""

    force: Truth = False


class ResizeOrder(ReasonOrder):
    """So many GPUs from now on."""

    gpus: Annotated[int, Field(strict=True, ge=1, le=MOST_GPUS)]


class KeepOrder(ReasonOrder):
    """Leave alone for so many hours; or, with ``alone``, let nobody compute in its idle gaps."""

    hours: Annotated[float, Field(strict=True, gt=0, le=24 * 31)] | None = None
    alone: Truth | None = None

    @model_validator(mode="after")
    def _holds_together(self) -> "KeepOrder":
        if (self.hours is None) is (self.alone is None):
            raise ValueError("say either hours, or alone")
        return self


class ConsentOrder(Order):
    """What an owner allows and withdraws, of one job or of all own ones."""

    job: Annotated[str, Field(strict=True, pattern=JOB)] | None = None
    allow: Annotated[list[Kind], Field(max_length=len(Kind))] = []
    withdraw: Annotated[list[Kind], Field(max_length=len(Kind))] = []
    forget: Annotated[list[Kind], Field(max_length=len(Kind))] = []
    hold_s: Annotated[float, Field(strict=True, gt=0, le=YEAR_S)] | None = None

    @model_validator(mode="after")
    def _holds_together(self) -> "ConsentOrder":
        named = [*self.allow, *self.withdraw, *self.forget]
        if not named:
            raise ValueError(f"allow, withdraw or forget at least one of {', '.join(Kind)}")
        if len(set(named)) < len(named):
            raise ValueError("name each kind once: it is allowed, withdrawn, or forgotten")
        return self

    def said(self) -> OwnWord:
        """The same as the desk takes it."""
        kinds: dict[Kind, bool | None] = dict.fromkeys(self.allow, True)
        kinds |= dict.fromkeys(self.withdraw, False) | dict.fromkeys(self.forget, None)
        return OwnWord(kinds=kinds, job=None if self.job is None else JobId(self.job), hold_s=self.hold_s)


class ApplyOrder(Order):
    """Which steps of a plan to do; all without."""

    steps: (
        Annotated[
            list[Annotated[int, Field(strict=True, ge=0, le=100_000)]], Field(min_length=1, max_length=1_000)
        ]
        | None
    ) = None


class RejectOrder(Order):
    """Why a plan is turned down, and for how long its like is not proposed again."""

    because: Annotated[str, Field(strict=True, min_length=1, max_length=1_000, pattern=SENTENCE)]
    snooze_hours: Annotated[float, Field(strict=True, gt=0, le=24 * 366)] | None = None


class Nothing(Order):
    """An order that needs nothing."""


def shown(text: str) -> str:
    """The text with what cannot be seen written out: an escape, a line's end, a change of direction."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def shortened(command: list[str]) -> tuple[str, ...]:
    """A command for people to read: printable, and cut with an ellipsis where it goes on for pages."""
    words: list[str] = []
    rest = MOST_COMMAND
    for argument in command:
        if rest <= 0:
            return (*words, "\u2026")
        text = shown(argument[:rest])
        words.append(text if len(argument) <= rest else f"{text}\u2026")
        rest -= len(argument) + 1
    return tuple(words)


__all__ = [
    "ApplyOrder",
    "CancelOrder",
    "ConsentOrder",
    "KeepOrder",
    "Nothing",
    "ReasonOrder",
    "RejectOrder",
    "ResizeOrder",
    "SubmissionOrder",
    "Whole",
    "shortened",
    "shown",
]
