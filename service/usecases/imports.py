"""An import of history as a thing that runs, can be watched and can be stopped: in the service, or in a verb.

The service owns the store, so while it runs it does the importing, in small pieces between its ticks.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from analytics import text
from service.errors import FallowError
from service.schemas.service import ImportedRanges, ImportPlan, ImportState, RunsCounted
from service.usecases.accounting import ordered

if TYPE_CHECKING:
    from collector.sources.prometheus.import_history import ImportSummary, Progress
    from collector.sources.prometheus.server import Access
    from collector.store.database import Store

log = logging.getLogger(__name__)

PIECE_ROWS = 50_000
"""Samples stored at once beside a running loop: a tick waits for one piece at most."""

_NAMED = 3
"""GPUs named in a sentence; a site may have thousands."""

LEAVE_S = 2.0
"""How long the end of a service waits for a piece."""


class ImportRefused(FallowError):
    """An import cannot begin or go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOrder:
    """What to read from where; times in UTC ms, half-open.

    ``headers`` go with each request and tell tenants apart, so they are part of the origin's name;
    ``secrets`` are headers too, told nowhere. ``ca_pem`` is the certificate behind the server's https.
    """

    url: str
    from_ms: int
    to_ms: int
    match: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_pem: str | None = field(default=None, repr=False)


def plan(store: "Store", order: ImportOrder) -> ImportPlan:
    """What would be read; asks the server, stores nothing. Raises ``ImportRefused``."""
    from collector.sources.prometheus.import_history import ImportSettings, survey, total_ms
    from collector.sources.prometheus.server import ImportFailed

    try:
        found = survey(
            _access(order),
            (order.from_ms, order.to_ms),
            store=store,
            settings=ImportSettings(match=order.match, rows=PIECE_ROWS),
        )
    except ImportFailed as failed:
        raise ImportRefused(str(failed)) from failed
    return ImportPlan(
        origin=found.origin,
        metrics=found.metrics,
        series=found.series,
        step_ms=found.step_ms,
        slowest_ms=found.slowest_ms,
        unnamed=found.unnamed,
        shared_nodes=found.shared_nodes,
        todo_ms=total_ms(found.todo),
    )


def run(store: "Store", order: ImportOrder, progress: "Callable[[Progress], None]") -> str:
    """Read and store it all; what was done, in words. Blocks. Raises ``ImportRefused``, store errors."""
    from collector.sources.prometheus.import_history import ImportSettings, import_history
    from collector.sources.prometheus.server import ImportFailed
    from collector.store.node_names import known_clusters, known_nodes

    with store.reader() as reader:
        clusters, nodes = frozenset(known_clusters(reader).values()), known_nodes(reader)
    shared, several = store.names.shared, store.names.several
    try:
        done = import_history(
            _access(order),
            (order.from_ms, order.to_ms),
            store=store,
            progress=progress,
            settings=ImportSettings(match=order.match, rows=PIECE_ROWS, clusters=clusters),
        )
    except ImportFailed as failed:
        raise ImportRefused(str(failed)) from failed
    renamed = sorted((store.names.shared - shared) & nodes)
    skipped = f"; {text.length(done.skipped_ms / 1000)} were imported before" if done.skipped_ms else ""
    return (
        f"{done.rows_added:,} new samples of {done.gpus} GPUs on {done.nodes} nodes, "
        f"from {done.samples_read:,} read{skipped}{_in_part(done)}"
        f"{f'. {without_uuid(done.unnamed)}' if done.unnamed else ''}"
        f"{f'. {of_two_clusters(done.shared_nodes)}' if done.shared_nodes else ''}"
        f"{f'. {now_apart(renamed)}' if renamed else ''}"
        f"{f'. {JOBS_NOW_APART}' if clusters and store.names.several and not several else ''}"
    )


def of_two_clusters(nodes: Sequence[str]) -> str:
    """Which names nodes of several clusters have, and what follows; without its full stop."""
    named = ", ".join(nodes[:_NAMED]) + (f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else "")
    one = len(nodes) == 1
    return (
        f"{text.count(len(nodes))} {'name is' if one else 'names are'} of nodes in more than one cluster "
        f"({named}): each of these nodes is called by its cluster as well, "
        f"{nodes[0].partition(' ')[0]}@CLUSTER, as jobs are"
    )


JOBS_NOW_APART = (
    "Jobs that were stored before bear their cluster now too, as all do with a second one in view"
)


def now_apart(nodes: Sequence[str]) -> str:
    """Which nodes were stored by a name that they have no more; without its full stop."""
    named = ", ".join(nodes[:_NAMED]) + (f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else "")
    return (
        f"What was stored of {named} before is now under the name with its cluster: another cluster has a "
        "node of that name"
    )


def without_uuid(gpus: Sequence[str]) -> str:
    """Of which GPUs nothing is imported, for want of a UUID, and what to do; without its full stop."""
    named = ", ".join(gpus[:_NAMED]) + (f" and {len(gpus) - _NAMED} more" if len(gpus) > _NAMED else "")
    return (
        f"Nothing is imported of {text.count(len(gpus))} GPUs whose series have no label UUID ({named}): "
        "without it a GPU cannot be told apart. Does a relabelling rule of Prometheus drop it?"
    )


def _in_part(done: "ImportSummary") -> str:
    if not done.partial_ms:
        return ""
    why = f" ({done.remark})" if done.remark else ""
    return (
        f". Of {text.length(done.partial_ms / 1000)} the server gave only a part{why}: repeat the import "
        "when it is well, those hours are read again"
    )


class Imports:
    """At most one import at a time, on a thread of its own; what is stored by then stays stored.

    ``ended`` is called at the end of each, on its thread: there may be something to judge.
    """

    def __init__(self, store: "Store") -> None:
        self.ended: Callable[[], None] = lambda: None
        self._store = store
        self._guard = threading.Lock()
        self._state = ImportState()
        self._thread: threading.Thread | None = None
        self._stopping = False

    @property
    def state(self) -> ImportState:
        """How the newest import stands."""
        return self._state

    def plan(self, given: Mapping[str, object]) -> ImportPlan:
        """What an order would read. Raises ``ImportRefused``."""
        return plan(self._store, _order(given))

    def runs(self, given: Mapping[str, object]) -> RunsCounted | ImportedRanges:
        """Store runs of a workload manager's accounting, or say which are stored. Raises ``RowsRefused``."""
        return ordered(self._store, given)

    def start(self, given: Mapping[str, object]) -> ImportState:
        """Begin; returns at once. Raises ``ImportRefused`` while another one runs."""
        order = _order(given)
        with self._guard:
            if self._thread is not None and self._thread.is_alive():
                raise ImportRefused("an import runs already; wait for its end, and repeat this one then")
            self._state = ImportState(state="running")
            self._thread = threading.Thread(target=self._run, args=[order], name="import", daemon=True)
            self._thread.start()
        return self._state

    def hurry(self) -> None:
        """The end is near: no piece is begun any more."""
        self._stopping = True

    def close(self) -> None:
        """Stop after the piece in hand; one that waits for its server is left behind, and stores nothing."""
        self.hurry()
        if self._thread is not None:
            self._thread.join(timeout=LEAVE_S)

    def _run(self, order: ImportOrder) -> None:
        try:
            said = run(self._store, order, self._note)
        except Exception as error:
            if not self._stopping:
                log.error("import failed: %s", error, exc_info=not isinstance(error, FallowError))
            self._set("failed", str(error))
        else:
            self._set("done", said)
        if not self._stopping:
            self.ended()

    def _note(self, progress: "Progress") -> None:
        if self._stopping:
            raise ImportRefused("the service stopped; start the import again, it goes on where it was")
        self._state = ImportState(
            state="running",
            done_ms=progress.done_ms,
            total_ms=progress.total_ms,
            rows_added=progress.rows_added,
        )

    def _set(self, state: Literal["done", "failed"], message: str) -> None:
        now = self._state
        self._state = ImportState(
            state=state,
            done_ms=now.done_ms,
            total_ms=now.total_ms,
            rows_added=now.rows_added,
            message=message,
        )


def _order(given: Mapping[str, Any]) -> ImportOrder:
    try:
        order = ImportOrder(
            url=str(given["url"]),
            from_ms=int(given["from_ms"]),
            to_ms=int(given["to_ms"]),
            match=str(given.get("match") or ""),
            headers=_headers(given.get("headers")),
            secrets=_headers(given.get("secrets")),
            ca_pem=None if given.get("ca_pem") is None else str(given["ca_pem"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ImportRefused(
            f"an import needs url, from_ms and to_ms, and headers as an object of texts; found {error!r}"
        ) from error
    if order.to_ms <= order.from_ms:
        raise ImportRefused("an import's to_ms must be after its from_ms")
    return order


def _headers(given: object) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError("headers that are no object")
    return {str(name): str(value) for name, value in given.items()}


def _access(order: ImportOrder) -> "Access":
    from collector.sources.prometheus.server import Access

    return Access(url=order.url, headers=order.headers, secrets=order.secrets, ca_pem=order.ca_pem)
