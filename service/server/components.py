"""The organs of the service: joined, started in order, and stopped in the reverse order.

What they are joined to is wiring's. All that they are made of is imported here, which takes most of a start.
"""

import logging
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from analytics import text
from analytics.query import Connection
from collector.clock import Clock, SystemClock
from collector.store.export import ExportBounds
from service.alerts.fallback import DirectSender, FallbackAlerts
from service.api.app import Acting as Doors
from service.api.app import Answers
from service.api.audit import Audit
from service.api.export import LEAST_FREE_BYTES, Exports, sweep
from service.api.export_desk import ExportQueue
from service.api.privacy import nameless_metrics
from service.api.queries import QueryLimits, QueryRunner
from service.api.stream import Closing
from service.config.model import Config
from service.control.acting import Acting
from service.control.components import ControlDependencies, join_acting
from service.control.gpu_locks import GpuLocks, lock_folder
from service.control.metrics import ServiceFacts, service_exposition
from service.health.components import CYCLE, DELIVERY, MISSED, Component, HealthBoard
from service.health.condition import Condition, Heartbeat, ServiceHealth, verdict
from service.logs import SecurityLog, log_event
from service.remote_write import sender as remote_write
from service.remote_write.sender import RemoteWriter
from service.schemas.service import ComponentHealth, Health
from service.server import assemble, head
from service.server.assemble import Body, Stage
from service.server.damage_check import Mending
from service.server.finding_metrics import finding_metrics
from service.server.health_watch import HealthWatch
from service.server.http_server import Server
from service.server.listeners import open_front
from service.server.maintenance import IMPORTED_PASTS
from service.server.person_limits import Bounds, make_bounds
from service.server.shutdown import Ending
from service.server.systemd_notify import notify
from service.server.tick import SamplingPace, watched
from service.store.answer import answer, catalogue
from service.store.open import write_export
from service.usecases.imports import Imports
from service.version import own_version

if TYPE_CHECKING:
    import pyarrow as pa

    from collector.store.database import Store
    from service.server.startup import Orders

log = logging.getLogger(__name__)

CYCLE_BOUND_S = 120.0
"""A cycle waits a second at most for a launcher, and for the store; of 10,000 jobs it takes one more."""
DELIVERY_BOUND_S = 600.0
"""Messages are seen to with every look of the alerts, twice a minute; chores take turns (``daemon.jobs``)."""

REMOTE_WRITE_PATIENCE_S = 120.0
"""A receiver is restarted within two minutes; nobody need be told of that."""

RESTING = "the recording has ended; what it brought is kept and shown"


def live(orders: "Orders", store: "Store", clock: Clock, ending: Ending) -> None:
    """Be the service on this store until it is to end. Blocks. Raises ``ServiceRefused``."""
    front = open_front(orders.config.api, orders.data, port_fixed=orders.port_fixed)
    pulse = _pulse(orders.config, clock.now_ms())
    body = assemble.assemble(orders.config, store, clock)
    body, superseded = head.watched(body, pulse.health), head.superseded(body.nodes)
    imports = Imports(store)
    desk = _desk(orders.config, store)
    locks = _locks(orders)
    acting = _acting(orders, store, clock, pulse, body, locks=locks)
    watch = _health_watch(orders, pulse, superseded)
    bounds = _bounds(orders.config, front.connections, acting)
    audit = Audit(SecurityLog(lambda: clock.monotonic_ms() / 1000))
    page = _metrics(body, acting, finding_metrics(store, clock), lambda: _own(store, server, audit))
    writer = _remote_writer(orders.config, page, body, pulse)
    answers = Answers(
        desk=desk,
        run=_answers(orders.config, store),
        most_bytes=orders.config.api.answer_mib << 20,
        catalogue=catalogue,
        exports=_exports(orders.config, store, orders.data),
        questions=bounds.questions,
        imports=imports,
        metrics=lambda: page() + writer.metrics(),
        health=lambda: _health(pulse, clock.now_ms(), simulated=body.simulated),
        private=orders.config.api.private,
        simulated=body.simulated,
        nodes=body.nodes,
        acting=None if acting is None else Doors(desk=acting.desk, hands=bounds.hands, closing=Closing()),
    )
    server = front.server(answers, bounds, audit)
    orders.opened()
    hurried = (server.hurry, desk.hurry, imports.hurry, body.loop.hurry, store.hurry)
    for each in hurried if acting is None else (acting.hurry, *hurried):
        ending.hurry_by(each)
    server.start()
    front.announce(clock.now_ms())
    log_event(log, "service-started", version=own_version(), pid=os.getpid(), url=front.url, data=orders.data)
    try:
        for remark in (*body.remarks, *front.remarks, f"Fallow answers at {front.url}"):
            orders.say(remark)
        notify("READY=1")
        watch.start()
        if acting is not None:
            _expect_acting(pulse)
            body = replace(body, chores=(*body.chores, *acting.start()))
        body = replace(body, chores=head.held_back(body.chores, superseded, pulse.health))
        writer.start()
        _live(orders.config, body, pulse, ending, imports)
    finally:
        notify("STOPPING=1")
        ending.hurry()
        parts: list[Callable[[], None]] = [watch.stop, writer.stop]
        parts += [] if acting is None else [acting.stop]
        parts += [locks.close, imports.close, server.stop]
        parts += [] if answers.acting is None else [answers.acting.hands.close]
        for end in (*parts, front.close, bounds.peers.close, desk.close, body.loop.close, ending.over):
            end()
        log_event(log, "service-stopped", pid=os.getpid())


def _expect_acting(pulse: ServiceHealth) -> None:
    pulse.health.expect(CYCLE, bound_s=CYCLE_BOUND_S)
    pulse.health.expect(DELIVERY, bound_s=DELIVERY_BOUND_S, first_s=DELIVERY_BOUND_S)


def _bounds(config: Config, connections: int, acting: Acting | None) -> Bounds:
    """What one person may take, with more for who has jobs."""
    bounds = make_bounds(config.limits, config.api, connections)
    if acting is not None:
        bounds.count_jobs(acting.desk.holdings)
    return bounds


def _answers(config: Config, store: "Store") -> Callable[[Connection, str, dict[str, object]], "pa.Table"]:
    bounded = partial(answer, most_bytes=config.api.answer_mib << 20)
    return Mending(bounded, store.mend_sealed, time.monotonic).answer


def _exports(config: Config, store: "Store", data: Path) -> ExportQueue:
    sweep(data)
    bounds = ExportBounds(most_bytes=round(config.api.export_gib * 2**30), least_free_bytes=LEAST_FREE_BYTES)
    return ExportQueue(
        Exports(write=lambda out, kind, span: write_export(store, out, kind, span, bounds), folder=data)
    )


def _metrics(body: Body, acting: Acting | None, *more: Callable[[], bytes]) -> Callable[[], bytes]:
    parts = (body.metrics, *(() if acting is None else (acting.metrics,)), *more)
    return lambda: b"".join(part() for part in parts)


def _remote_writer(
    config: Config, page: Callable[[], bytes], body: Body, pulse: ServiceHealth
) -> RemoteWriter:
    """What pushes the page where the site wants it; in private mode without the names of jobs."""
    settings = config.remote_write
    if settings.url:
        bound_s = max(MISSED * settings.every_s, REMOTE_WRITE_PATIENCE_S)
        pulse.health.expect(remote_write.NAME, bound_s=bound_s, first_s=bound_s, patient=True)
    if body.simulated:
        settings = replace(settings, labels={"simulated": "true", **settings.labels})
    return RemoteWriter(
        settings,
        (lambda: nameless_metrics(page())) if config.api.private else page,
        lambda: body.loop.snapshot.at_ms,
        lambda trouble: pulse.health.went(remote_write.NAME, trouble),
        head.superseded(body.nodes),
    )


def _own(store: "Store", server: Server, audit: Audit) -> bytes:
    facts = ServiceFacts(
        store_bytes=_size(store.path),
        wal_bytes=_size(store.path.with_name(store.path.name + ".wal")),
        connections=server.connections(),
        refused_requests=audit.refused,
    )
    return service_exposition(facts)


def _size(path: Path) -> int | None:
    """Bytes of a file; a write-ahead log that was just folded in is not there, and holds nothing."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
    except OSError:
        return None


def _live(config: Config, body: Body, pulse: ServiceHealth, ending: Ending, imports: Imports) -> None:
    """The last day, then ticks, a judgement and beside them the older past, then the chores, to the end."""
    from service.server.scheduler import Scheduler  # callers are answered by now

    _past(body.prepare, pulse, ending, lambda stage: pulse.note(starting=stage))
    if ending.is_asked:
        return
    pulse.note(starting=None, resting=body.beat is None)
    early = tuple(chore for chore in body.chores if chore.early and body.beat is not None)
    clockwork = Scheduler(_watched(config, body, pulse), pulse, config.rehearsal.speed, early)
    ending.hurry_by(clockwork.hurry)
    clockwork.start()
    try:
        _past(body.complete, pulse, ending, lambda stage: pulse.note(remark=stage))
        pulse.note(remark=RESTING if body.beat is None else None)
        clockwork.now(early)
        clockwork.add_chores(tuple(chore for chore in body.chores if chore not in early))
        judging = tuple(chore for chore in body.chores if chore.name == IMPORTED_PASTS)
        imports.ended = lambda: clockwork.now(judging)
        ending.asked.wait()
    finally:
        notify("STOPPING=1")
        clockwork.stop()


def _past(stage: Stage, pulse: ServiceHealth, ending: Ending, tell: Callable[[str], None]) -> None:
    """Fill in some of the past; where that fails, say so and measure on."""
    from service.server.scheduler import expected

    try:
        stage(ending.asked.is_set, tell)
    except Exception as error:
        if ending.is_asked:
            return
        log.error("the past could not be filled in: %s", error, exc_info=not expected(error))
        pulse.chore_went("past", f"the past could not be filled in: {error}")


def _locks(orders: "Orders") -> GpuLocks:
    """The locks of GPUs that are leased here, in the folder that is shared with the most services."""
    folder = lock_folder(os.environ)
    if folder.remark is not None:
        orders.say(folder.remark)
    return GpuLocks(folder.path, f"process {os.getpid()}, {orders.data}", SystemClock().monotonic_ms)


def _acting(
    orders: "Orders", store: "Store", clock: Clock, pulse: ServiceHealth, body: Body, *, locks: GpuLocks
) -> Acting | None:
    """The acting half, at rest; a recording that is played has none: what it shows is long over."""
    if body.beat is None:
        return None
    ground = ControlDependencies(
        config=orders.config,
        store=store,
        clock=clock,
        folder=orders.data,
        last_tick=lambda: pulse.condition.last_tick_ms,
        trouble=lambda trouble: pulse.chore_went(CYCLE, trouble),
        delivered=lambda trouble: pulse.health.went(DELIVERY, trouble),
        locks=GpuLocks() if body.simulated else locks,
        simulated=body.simulated,
        snapshot=lambda: body.loop.snapshot,
        launched=body.launched,
        withheld=head.withheld(body.nodes),
    )
    return join_acting(ground)


def _pulse(config: Config, now_ms: int) -> ServiceHealth:
    tick_ms = round(config.collect.tick_s * 1000)
    condition = Condition(starting="starting", started_ms=now_ms, tick_ms=tick_ms)
    return ServiceHealth(condition, HealthBoard(SystemClock()))


def _watched(config: Config, body: Body, pulse: ServiceHealth) -> Heartbeat | None:
    """The beat, which tells its health from now on; a recording has none, and no tick is due."""
    if body.beat is None:
        return None
    speed = config.rehearsal.speed
    pace = SamplingPace(
        tick_s=config.collect.tick_s / speed,
        seldom_s=config.collect.inventory_every_s / speed,
        seldom=body.inventories,
    )
    return watched(body.beat, lambda: body.loop.snapshot, pulse.health, pace)


def _health_watch(
    orders: "Orders", pulse: ServiceHealth, superseded: Callable[[], str | None]
) -> HealthWatch:
    """What looks at all components from outside of them, and tells where nothing else can, as the head."""
    config, clock = orders.config, SystemClock()
    sender = DirectSender(config.alerts, config.delivery, clock)
    alerts = FallbackAlerts(config.alerts, sender.send, clock, lambda: _room(orders.data))

    def look(components: Sequence[Component]) -> None:
        if superseded() is not None:  # nobody needs to hear how it fares: the new head watches and tells
            return
        alerts.look(components)
        sender.push()

    return HealthWatch(pulse.health.components, look)


def _room(data: Path) -> str:
    try:
        free = shutil.disk_usage(data).free
    except OSError as error:
        return f"no telling how much room there is for {data} ({error.strerror})"
    return f"{text.size(free)} of room for {data}"


def _desk(config: Config, store: "Store") -> QueryRunner:
    api = config.api
    limits = QueryLimits(threads=api.query_threads, queue=api.query_queue, timeout_s=api.query_timeout_s)
    return QueryRunner(reader=store.reader, limits=limits)


def _health(pulse: ServiceHealth, now_ms: int, *, simulated: bool) -> Health:
    condition, components = pulse.condition, pulse.health.components()
    status, reason = verdict(condition, now_ms, components)
    return Health(
        status=status,
        reason=reason,
        version=own_version(),
        pid=os.getpid(),
        started_ms=condition.started_ms,
        now_ms=now_ms,
        last_tick_ms=condition.last_tick_ms,
        tick_s=condition.tick_ms / 1000,
        components=tuple(
            ComponentHealth(
                name=each.name,
                state=each.state.value,
                age_s=each.age_s,
                bound_s=each.bound_s,
                reason=each.reason,
            )
            for each in components
        ),
        simulated=simulated,
    )
