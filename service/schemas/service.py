"""What the routes about the service itself answer: its health, its named queries, imports.

As in ``service.schemas.records``: pure, times UTC milliseconds, ``None`` where nothing is known.
"""

from typing import Literal

from service.schemas.answer import Answer, answer


@answer
class ComponentHealth(Answer):
    """How one component of the service fares."""

    name: str
    """sampler, store, cycle, alerts, delivery, a source or a maintenance task."""
    state: Literal["starting", "ok", "failing", "late"]
    """Whether it does its work; somebody should look at one that is failing or late."""
    age_s: float | None = None
    """Seconds since it last succeeded; null before the first time."""
    bound_s: float = 0.0
    """Seconds within which it has to succeed."""
    reason: str | None = None
    """What failed; null where nothing did."""


@answer
class Health(Answer):
    """How the service fares."""

    service: Literal["fallow"] = "fallow"
    """Who answers."""
    status: Literal["ok", "degraded", "starting", "stopped"]
    """Whether it measures; stopped: nobody answers, and the store's file is read as it lies."""
    reason: str | None = None
    """Why it is not ok, for people; of a service that is well, a remark."""
    version: str = ""
    """The version of Fallow that runs."""
    pid: int | None = None
    """The service's process."""
    started_ms: int | None = None
    """When it began, UTC ms."""
    now_ms: int | None = None
    """The service's calendar now, UTC ms; a rehearsal's runs faster than the machine's clock."""
    last_tick_ms: int | None = None
    """When it last measured, UTC ms; null before the first time."""
    tick_s: float | None = None
    """Seconds between two measurements."""
    components: tuple[ComponentHealth, ...] = ()
    """Each component by itself."""
    simulated: bool | None = None
    """Whether its GPUs, people and jobs are invented; null where it does not say."""

    @property
    def remark(self) -> str | None:
        """What a service that is well says of itself: how far a recording is played, or that it has ended."""
        return self.reason if self.status == "ok" else None


@answer
class HeadTerm(Answer):
    """One start of a head; a node deletes nothing at the word of an older one than it has heard."""

    epoch: int
    """When somebody had it take over, UTC ms; 0: nobody ever did."""
    start: int
    """The count of starts on its store."""
    word: str
    """Made at the start, at random: tells copies of a store apart."""
    seal: str
    """By the key of the head's DATA folder: nobody else can make one."""


@answer
class NodeReceipt(Answer):
    """What a node that pushed its ticks is told."""

    spool: str
    """The spool that the numbers are of; another than the node's: it is to wait."""
    stored: int
    """Up to here ticks are stored for good, and the node may forget them."""
    received: int
    """Up to here ticks need not be sent again, unless the service ends before they are stored."""
    now_ms: int
    """The head's time at its answer, UTC ms: the node sends it back with the next request."""
    is_full: bool = False
    """Whether more wait already than the store has taken up: come again after its next tick."""
    notes: tuple[str, ...] = ()
    """What of it was not believed, and why: sentences for whoever looks after the node."""
    head: HeadTerm | None = None
    """Who answers: the node says it with the next request."""


@answer
class QueryParameter(Answer):
    """A parameter of a named query."""

    name: str
    """Its name in the URL."""
    kind: str
    """What it holds: a text, several, a whole number, a number, a time or a truth."""
    required: bool
    """Whether the query needs it."""
    about: str
    """What it chooses."""


@answer
class QueryColumn(Answer):
    """A column of a named query."""

    name: str
    """Its name."""
    type: str
    """What DuckDB calls its type."""
    unit: str = ""
    """The unit of its numbers; empty where they have none."""
    about: str
    """What it says."""


@answer
class Query(Answer):
    """A named query."""

    name: str
    """Its name in the URL."""
    summary: str
    """What it answers."""
    parameters: tuple[QueryParameter, ...] = ()
    """What may be asked of it."""
    columns: tuple[QueryColumn, ...] = ()
    """What a row of it holds."""
    null_means: str = ""
    """What an empty field of a row means."""


@answer
class ImportPlan(Answer):
    """What an import would read."""

    origin: str
    """The server that it reads, by the name that its samples get."""
    metrics: tuple[str, ...] = ()
    """The metrics that the server has and Fallow keeps."""
    series: int = 0
    """The most time series that one of the metrics has at a time."""
    step_ms: int
    """Time in ms from one sample to the next, of the target that is scraped most often."""
    slowest_ms: int = 0
    """Time in ms from one sample to the next, of the target that is scraped most seldom; 0: not told."""
    unnamed: tuple[str, ...] = ()
    """GPUs whose series have no UUID and are not read, by their target and number."""
    shared_nodes: tuple[str, ...] = ()
    """Names that nodes of more than one cluster have, with their clusters."""
    todo_ms: int
    """History in ms that was not imported before."""


@answer
class RunsCounted(Answer):
    """What became of runs of a workload manager's accounting that were sent to be stored."""

    records: int
    """Records read."""
    steps: int
    """Of these, steps of jobs."""
    not_over: int
    """Jobs that are not over yet."""
    no_gpus: int
    """Jobs that neither got nor asked for GPUs."""
    runs: int
    """Runs of jobs with GPUs."""
    measured: int
    """Of these, runs with means of jobstats'."""
    added: int
    """Runs that are new."""
    completed: int
    """Runs that were there without means, and have them now."""
    comments: int
    """Comments of jobstats' that can't be read."""
    refused: int
    """Records that can't be read."""
    refusals: tuple[str, ...] = ()
    """Why, of the first of them, for people."""


@answer
class ImportedRanges(Answer):
    """What of a workload manager's accounting was imported before."""

    ranges: tuple[tuple[int, int], ...]
    """Half-open ranges, UTC ms."""


@answer
class ImportState(Answer):
    """How an import stands."""

    state: Literal["idle", "running", "done", "failed"] = "idle"
    """idle: there was none since the service started."""
    done_ms: int = 0
    """History in ms that is read."""
    total_ms: int = 0
    """History in ms to read in all."""
    rows_added: int = 0
    """Samples that were new."""
    message: str = ""
    """What was done, or what was wrong, for people."""
