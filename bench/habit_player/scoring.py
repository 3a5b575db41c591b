"""Holds what was said of a GPU at an instant against the label of that instant. Pure.

A *case* is one subject (a GPU; on a shared one each holder) at one instant on one source. What was *said* is
the kinds of its findings; where there are none, ``unknown`` when the analysis says that it cannot tell
whether the GPU is used; else, where somebody holds it, ``starting`` or ``working``, and where nobody does,
what the ledger counts it as (``UNHELD``).

* right: a kind that was said and is the label's, or one of its ``also``.
* wrong: a kind that was said and is not, unless the label has it in ``may``.
* missed: a kind of the label that was not said.

Kinds that accuse nobody and ask for nothing count as one another (``QUIET_SETS``). Job kinds count once a
job.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from analytics.model import Analysis, Finding
from bench.habit_player.model import ACTIVE, BORDERLINE, FINDINGS, JOB_FINDINGS, QUIET, UNASKED, Label
from bench.habit_player.naming import is_of
from bench.habit_player.timeline import Subject
from bench.habit_player.world import World

ALIASES: Mapping[str, str] = {}
"""Other names of kinds: what a finding is called, and what the labels call it."""

IDLE = ("held-idle", "allocated-empty")
QUIET_SETS = (
    frozenset({"working", "starting"}),
    frozenset({"gone", "unknown"}),
    frozenset({"gone", "working"}),
    frozenset({"gone", "free"}),
)
"""Kinds that accuse nobody: said for one another they are right."""

UNHELD = {
    "free": "free",
    "low_saturation": "working",
    "moderate": "working",
    "good": "working",
}
"""What the ledger's state says of a GPU that nobody holds; any other is unknown: somebody may be there."""

USE_KINDS = ("held-idle", "allocated-empty", "not-started", "rarely-used", "zombie-memory", "sleeping-batch")
"""Unknown for one of these is unknown whether the GPU is used; for the others a detail is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What an analysis says of one subject."""

    kinds: frozenset[str]
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """What a page shows beside the findings, by UUID: the jobs and users that hold a GPU, and its state."""

    held_by: Mapping[str, tuple[tuple[str, str | None], ...]]
    states: Mapping[str, str]


@dataclass(slots=True)
class Tally:
    """The counts of one source."""

    right: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    cases: int = 0
    borderline: int = 0
    labelled_unknown: int = 0
    said_unknown: int = 0
    active: int = 0
    accused: Counter[str] = field(default_factory=Counter)
    mistakes: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Tally") -> None:
        """Add another tally's counts to this one's."""
        for name in ("right", "wrong", "missed", "accused", "mistakes"):
            getattr(self, name).update(getattr(other, name))
        for name in ("cases", "borderline", "labelled_unknown", "said_unknown", "active"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def said_of(analysis: Analysis, world: World, subject: Subject, uuid: str, now: Now) -> Said:
    """What the analysis says of a subject, whose GPU is known by this name."""
    plan = next((each for each in world.habit.holders if each.name == subject.holder), None)
    held = now.held_by.get(uuid, ())
    found = [each for each in analysis.findings if each.uuid == uuid]
    if plan is not None:
        found = [
            each
            for each in found
            if each.holder is None or is_of(world, plan, each.holder.job, each.holder.user)
        ]
        held = tuple((job, user) for job, user in held if is_of(world, plan, job, user))
    kinds = {name_of(each) for each in found} - set(JOB_FINDINGS)
    if kinds:
        return Said(kinds=frozenset(kinds), sentences=tuple(each.sentence for each in found))
    unsure = [
        each
        for each in analysis.unknown
        if each.uuid == uuid and any(kind.value in USE_KINDS for kind in each.kinds)
    ]
    if unsure:
        return Said(kinds=frozenset({"unknown"}), sentences=tuple(each.reason for each in unsure))
    if not held:
        return Said(kinds=frozenset({UNHELD.get(now.states.get(uuid, "unknown"), "unknown")}))
    starting = any(each.uuid == uuid for each in analysis.starting)
    return Said(kinds=frozenset({"starting" if starting else "working"}))


def job_said_of(analysis: Analysis, uuids: Iterable[str]) -> Said:
    """The job kinds that are found on any of a habit's GPUs."""
    own = frozenset(uuids)
    found = [each for each in analysis.findings if each.uuid in own and name_of(each) in JOB_FINDINGS]
    kinds = frozenset(name_of(each) for each in found) or frozenset({"working"})
    return Said(kinds=kinds, sentences=tuple(each.sentence for each in found))


def name_of(finding: Finding) -> str:
    """What the labels call the kind of a finding."""
    return ALIASES.get(finding.kind.value, finding.kind.value)


def score(tally: Tally, label: Label, said: Said, where: str) -> None:
    """Count one case."""
    tally.cases += 1
    tally.labelled_unknown += label.kind in ("unknown", UNASKED)
    if label.kind == UNASKED:
        return
    tally.borderline += label.kind == BORDERLINE
    tally.said_unknown += "unknown" in said.kinds
    tally.active += label.kind in ACTIVE
    for kind in _wrong(label, said):
        tally.wrong[kind] += 1
        tally.mistakes[f"wrong   {kind:19s} {where} (label: {label.kind})"] += 1
        if kind in IDLE and label.kind in ACTIVE:
            tally.accused[where] += 1
    expected = _expected(label)
    for kind in expected:
        if _is_said(label, kind, said):
            tally.right[kind] += 1
        else:
            tally.missed[kind] += 1
            tally.mistakes[f"missed  {kind:19s} {where} (said: {'+'.join(sorted(said.kinds))})"] += 1


def _expected(label: Label) -> tuple[str, ...]:
    own = () if label.kind == BORDERLINE else (label.kind,)
    return (*own, *label.also)


def _is_said(label: Label, kind: str, said: Said) -> bool:
    """Whether a kind was said, or one that is as good; of a quiet kind, whether all that was said may be."""
    if kind in said.kinds:
        return True
    if kind in QUIET and said.kinds <= {*label.may, *label.also}:
        return True
    return any(kind in each and said.kinds & each for each in QUIET_SETS)


def _wrong(label: Label, said: Said) -> list[str]:
    """The kinds that were said and are not so."""
    expected = _expected(label)
    wrong = [kind for kind in sorted(said.kinds) if kind not in expected and kind not in label.may]
    if label.kind == BORDERLINE:
        return [kind for kind in wrong if kind in FINDINGS or kind in JOB_FINDINGS]
    return [kind for kind in wrong if not any(kind in each and label.kind in each for each in QUIET_SETS)]
