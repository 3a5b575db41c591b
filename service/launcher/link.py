"""A launcher's line to the service: directives come, reports go, and neither stops when the service does.

Two threads, which hand everything to the launcher's loop. A line that broke is made anew with patience that
grows; each report with news is delivered in order, mere signs of life are sent when they can be.
"""

import os
import random
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from advisor.jobs.model import CancelCommand, Command, Report
from advisor.serialize import Unreadable, from_tree, to_tree
from advisor.tags import as_before
from collector.model import GpuUuid, JobId
from service.client.jobs import ActingClient, Told
from service.errors import BadOrder, ClientError, JobEnded, UnknownJob
from service.schemas.answer import Row

# Doubled from the first to the longest while the service does not answer: 200 launchers must not flood it.
FIRST_PATIENCE_S, LONGEST_PATIENCE_S = 0.5, 15.0
BARE, RENAMED, TODAYS = 0, 2, 3
"""What a service understands of a report. 0: the names of before 0.1.0, no proof; 1: a proof; 2: today's
names; 3: idle gaps."""

Connect = Callable[[], ActingClient]
"""A client of the service that answers now; raises ClientError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCommand:
    """A directive."""

    directive: Command


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased:
    """A proof of how the job stands since command ``number``."""

    number: int
    proof: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """On which of its GPUs background jobs may compute in the job's idle gaps from now on, and which other
    accounts may read the page of which GPU.
    """

    gpus: tuple[GpuUuid, ...]
    readers: tuple[tuple[GpuUuid, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where a waiting job stands in the queue, in words."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The service does not answer; told once until it does again."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconnected:
    """The service answers again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The service said what this launcher cannot take."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The service answers, and doesn't know this job; told at each try."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOver:
    """The service says that this job has ended."""


Word = NewCommand | Leased | Opened | Placed | Lost | Reconnected | Refused | Unknown | JobOver


class Link:
    """The line of one job, which its number and its submission's ``nonce`` name together.

    ``fileno`` is readable when ``words`` has something; close it at the end.
    """

    def __init__(self, connect: Connect, job: JobId, nonce: str = "") -> None:
        self._connect, self._job, self._nonce = connect, job, nonce
        self._words: deque[Word] = deque()
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._closed = threading.Event()
        self._known = 0
        self._edition = TODAYS
        self._told: Told | None = None
        self._is_lost = False
        self._reports: deque[Report] = deque()
        self._life: Report | None = None
        self._changed = threading.Condition()
        self._threads = tuple(
            threading.Thread(target=target, daemon=True, name=f"fallow-{target.__name__.strip('_')}")
            for target in (self._listen, self._tell)
        )

    def open(self) -> None:
        """Start listening and telling."""
        for thread in self._threads:
            thread.start()

    def fileno(self) -> int:
        """Readable when there are words."""
        return self._woken

    def words(self) -> tuple[Word, ...]:
        """What came since; call it when readable."""
        os.read(self._woken, 4096)
        return tuple(self._words.popleft() for _ in range(len(self._words)))

    def report(self, report: Report, *, news: bool) -> None:
        """Tell the service; ``news`` is delivered in order, the rest only while it is fresh."""
        with self._changed:
            self._known = max(self._known, report.acknowledged)
            if news:
                self._reports.append(report)
                self._life = None
            else:
                self._life = report
            self._changed.notify_all()

    def settle(self, limit_s: float) -> bool:
        """Wait until all that was to be told is told; whether it was, within the limit."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._reports, limit_s)

    def close(self) -> None:
        """Let the line go."""
        self._closed.set()
        with self._changed:
            self._changed.notify_all()
        if self._told is not None:
            self._told.close()

    # -- listening -------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        patience_s = FIRST_PATIENCE_S
        while not self._closed.is_set():
            try:
                self._told = self._connect().directives(self._job, after=self._known, nonce=self._nonce)
                for item in self._told:
                    patience_s = FIRST_PATIENCE_S
                    self._hear(item)
            except ClientError as error:
                self._went_wrong(error)
            self._closed.wait(patience_s * random.uniform(0.5, 1.0))
            patience_s = min(LONGEST_PATIENCE_S, 2 * patience_s)

    def _hear(self, item: Row) -> None:
        self._is_well()
        match item:
            case {"directive": dict(tree)}:
                try:
                    command = from_tree(Command, tree)
                    self._say(NewCommand(directive=command))
                    self._knows(command)
                except Unreadable as error:
                    self._say(Refused(why=f"the service said what this launcher cannot read: {error}"))
            case {"lease": {"number": int(number), "proof": str(proof)}}:
                self._say(Leased(number=number, proof=proof))
            case {"idle_gaps": {"open": list(gpus), **more}}:
                named = more.get("readers")
                pairs = named if isinstance(named, list) else []
                readers = tuple(
                    (GpuUuid(str(each[0])), str(each[1]))
                    for each in pairs
                    if isinstance(each, list) and len(each) == 2
                )
                self._say(Opened(gpus=tuple(GpuUuid(str(each)) for each in gpus), readers=readers))
            case {"place": dict(place)}:
                self._say(Placed(text=place_text(place)))
            case _:
                return

    def _knows(self, command: Command) -> None:
        """It need not be told again; only a stop may be, which says why the job has ended."""
        with self._changed:
            if not isinstance(command, CancelCommand):
                self._known = max(self._known, command.number)

    # -- telling ---------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        patience_s = FIRST_PATIENCE_S
        while True:
            report = self._next()
            if report is None:
                return
            try:
                self._connect().report(self._job, self._body(report), self._nonce)
            except ClientError as error:
                if isinstance(error, BadOrder) and self._edition > BARE:
                    self._edition -= 1  # the service is of an older Fallow, which doesn't know these words
                    continue
                self._went_wrong(error)
                # Nobody is left to take this report: it would be sent for ever.
                if isinstance(error, JobEnded | UnknownJob):
                    self._sent(report)
                self._closed.wait(patience_s * random.uniform(0.5, 1.0))
                patience_s = min(LONGEST_PATIENCE_S, 2 * patience_s)
                continue
            patience_s = FIRST_PATIENCE_S
            self._sent(report)
            self._is_well()

    def _body(self, report: Report) -> Row:
        """The report as it is sent: without a word that an older service would refuse."""
        tree: Row = to_tree(report)
        if not report.proof or self._edition == BARE:
            del tree["proof"]
        if not report.idle_gaps or self._edition < TODAYS:
            del tree["idle_gaps"]
        return tree if self._edition >= RENAMED else as_before(Report, tree)

    def _next(self) -> Report | None:
        with self._changed:
            self._changed.wait_for(lambda: self._reports or self._life or self._closed.is_set())
            if self._closed.is_set():
                return None
            return self._reports[0] if self._reports else self._life

    def _sent(self, report: Report) -> None:
        with self._changed:
            if self._reports and self._reports[0] is report:
                self._reports.popleft()
            if self._life is report:
                self._life = None
            self._changed.notify_all()

    # -- both ------------------------------------------------------------------------------------------------

    def _went_wrong(self, error: ClientError) -> None:
        if isinstance(error, JobEnded):
            self._say(JobOver())
        elif isinstance(error, UnknownJob):
            self._is_lost = True
            self._say(Unknown(why=str(error)))
        elif not self._is_lost:
            self._is_lost = True
            self._say(Lost(why=str(error)))

    def _is_well(self) -> None:
        if self._is_lost:
            self._is_lost = False
            self._say(Reconnected())

    def _say(self, message: Word) -> None:
        self._words.append(message)
        try:
            os.write(self._wake, b".")
        except OSError:
            return  # full: it is readable already


def place_text(place: Mapping[str, object]) -> str:
    """``3 of 7 in the queue, waits for 2 free GPUs``."""
    where = "waiting"
    if place.get("place") is not None:
        of = f" of {place['of']}" if place.get("of") is not None else ""
        where = f"{place['place']}{of} in the queue"
    waits_for = str(place.get("waits_for") or "")
    return f"{where}: {waits_for}" if waits_for else where
