"""What the API asks of control, and who asks: with ``errors`` all that its routes know of this folder.

Plain Python without a web framework: the routes call a ``ControlInterface``, which ``JobCommands`` is. Who
a caller is was settled before (``service.api.identity``): by the kernel on the Unix socket, by a token on
TCP.
"""

import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from advisor.jobs.model import JobState, Report, Submission
from advisor.planner.consent import Kind
from collector.model import JobId
from collector.procfs.owners import is_lent
from service.schemas.answer import Row


class Role(StrEnum):
    """What somebody may do: VIEWER sees everything, USER also acts on own jobs, OPERATOR on all.

    NODE is no person: a machine that pushes what it measures, and may do and see nothing else.
    """

    NODE = "node"
    VIEWER = "viewer"
    USER = "user"
    OPERATOR = "operator"

    def covers(self, other: "Role") -> bool:
        """Whether this role may do what ``other`` may."""
        ranks = tuple(Role)
        return ranks.index(self) >= ranks.index(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks. ``uid`` is ``None`` where no account of this machine has the name.

    ``pid`` is the process at the other end of the Unix socket as this service sees it; ``None`` over TCP, and
    where it lives in a pid namespace that this service cannot see.
    """

    name: str
    uid: int | None
    role: Role
    pid: int | None = None
    credential: str = ""

    def may_act_for(self, user: str, uid: int | None = None) -> bool:
        """Whether this caller may act on a job of that user: an own one, or any one as operator.

        Two uids of one name are one person where one was lent the other (else an account was made anew).
        """
        if self.role is Role.OPERATOR:
            return True
        if self.role in (Role.VIEWER, Role.NODE):
            return False
        if self.uid is None or uid is None:
            return self.name == user
        return self.uid == uid or (self.name == user and (is_lent(uid) or is_lent(self.uid)))


def acts_for_all(uid: int | None, name: str, operators: frozenset[str]) -> bool:
    """Whether an account is an operator's: root, the one that the service runs as, or one that is named."""
    return uid in (0, os.geteuid()) or name in operators


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnWord:
    """What an owner says of one job, or of all own ones (no ``job``): yes, no, or ``None`` to take it back.

    ``hold_s`` is for how long; ``None``: until something else is said.
    """

    kinds: Mapping[Kind, bool | None]
    job: JobId | None = None
    hold_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """Which submitted jobs are meant: all that fit everything that is said. ``ended``: whether they have."""

    state: JobState | None = None
    ended: bool | None = None
    user: str | None = None
    project: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The rows that were asked for, and how many there would be without a limit."""

    rows: list[Row]
    total: int


class ControlInterface(Protocol):
    """What can be asked and ordered; a method a route of docs/api.md. Safe from any thread.

    Every method but ``directives`` and ``sign_of_life`` may block for a commit, and is called on a thread of
    the door's. Raises ``service.control.errors.ActingError``.

    A launcher gives the ``nonce`` of its submission along: after an older backup was put back the same number
    may be another job, which is then unknown to it. Without one, the number alone counts.
    """

    def submit(self, caller: Caller, submission: Submission) -> tuple[Row, bool]:
        """The job's entry, and whether it is new; the same nonce of one user is one job."""

    def jobs(self, caller: Caller, which: Which, limit: int) -> Listed:
        """Entries, the newest first."""

    def job(self, caller: Caller, job: JobId) -> Row:
        """One entry, with ``directives``, ``actions`` and ``explain``."""

    def directives(self, caller: Caller, job: JobId, after: int, nonce: str = "") -> AsyncIterator[Row]:
        """What the launcher of a job is told, as it comes; numbers above ``after`` only.

        Called on the event loop and must not block: it raises at once when the caller may not listen, and
        returns an iterator of ``{"directive": ...}`` and ``{"place": ...}`` that ends with the job.
        """

    def report(self, caller: Caller, job: JobId, report: Report, nonce: str = "") -> Row:
        """Take a launcher's word."""

    def sign_of_life(self, caller: Caller, job: JobId, report: Report, nonce: str = "") -> Row | None:
        """The same for a word that says nothing new, on the event loop; ``None``: ``report`` must."""

    def pause(self, caller: Caller, job: JobId, because: str) -> Row:
        """``{"action", "outcome", "message"}``, as of all that act."""

    def resume(self, caller: Caller, job: JobId, because: str, nonce: str = "") -> Row:
        """Let a paused job go on when there is room."""

    def cancel(
        self, caller: Caller, job: JobId, because: str, nonce: str = "", *, force: bool = False
    ) -> Row:
        """End a job for good; with ``force`` an operator ends its lease too, whatever its processes do."""

    def resize(self, caller: Caller, job: JobId, gpus: int, because: str) -> Row:
        """Give a job so many GPUs, when there are as many."""

    def keep(
        self, caller: Caller, job: JobId, hours: float | None, because: str, *, alone: bool | None = None
    ) -> Row:
        """Leave a job alone for so long; also a job that was not launched by Fallow. ``alone``: whether
        nobody may compute in its idle gaps, in place of ``hours``.
        """

    def consents(self, caller: Caller, job: JobId | None) -> list[Row]:
        """What owners allow with one job, or with the caller's own; an operator's: with all."""

    def consent(self, caller: Caller, reply: OwnWord) -> Row:
        """Take an owner's word about own jobs."""

    def queue(self, caller: Caller, limit: int) -> Listed:
        """The jobs that wait, in the order in which they are looked at."""

    def leases(self, caller: Caller) -> list[Row]:
        """Who was given which GPU by Fallow."""

    def engines(self, caller: Caller) -> list[Row]:
        """What is done at all to jobs of each kind."""

    def plans(self, caller: Caller) -> list[Row]:
        """Plans, those that wait for somebody first."""

    def try_plan(self, caller: Caller) -> Row:
        """What each step of a plan made now would do; nothing is done."""

    def apply(self, caller: Caller, plan: int, steps: tuple[int, ...] | None) -> Row:
        """Do a waiting plan, or these steps of it."""

    def reject(self, caller: Caller, plan: int, because: str, snooze_hours: float | None) -> Row:
        """Turn a waiting plan down."""

    def actions(self, caller: Caller, *, since_ms: int | None, job: JobId | None) -> list[Row]:
        """The journal, the newest first."""

    def undo(self, caller: Caller, action: int) -> Row:
        """Take an action back."""

    def acting(self, caller: Caller) -> Row:
        """Whether the service acts, who said so, and the modes."""

    def stop_acting(self, caller: Caller, because: str) -> Row:
        """The kill switch; operators alone."""

    def start_acting(self, caller: Caller) -> Row:
        """Release the kill switch; operators alone."""
