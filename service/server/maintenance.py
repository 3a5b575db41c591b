"""What a service does beside its ticks: findings, sealing, retention, checkpoints, reports."""

from time import sleep
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.clock import Clock
    from collector.store.database import Store
    from collector.store.retention import Retention
    from service.config.model import Config
    from service.health.condition import MaintenanceTask

DAY_MS = 86_400_000
CHECKPOINT_S = 600
"""How much of the log a crash leaves to be read again at the next start."""
SHED_TRIES, SHED_EVERY_S = 20, 0.1
"""Most moments nobody reads; a busy service has such moments as well."""
FINDINGS_S = 60
PASTS_S = 300
"""A month of a hundred GPUs takes about so long to be judged."""
IMPORTED_PASTS = "imported pasts"
"""Done too when an import has ended."""
MENDING_AFTER_S = 900
"""Reading every sealed day takes the disk a while; a start has enough to do without it."""
KEEPING_S = 3_600
SETTLED_DAYS = 1.0
"""Time enough to see that a clock is wrong."""


def make_chores(config: "Config", store: "Store", clock: "Clock") -> "tuple[MaintenanceTask, ...]":
    """The chores of one store; each is short, and none holds up a tick for long."""
    from service.health.condition import MaintenanceTask
    from service.server.report_schedule import make_reporting
    from service.usecases.judge import judge

    return (
        make_reporting(config, store.folder, clock),
        MaintenanceTask(
            name="checkpoint", every_s=CHECKPOINT_S, first_after_s=120, work=lambda: _checkpoint(store)
        ),
        MaintenanceTask(
            name="findings",
            every_s=FINDINGS_S,
            first_after_s=0,
            work=lambda: judge(config, store, clock.now_ms()),
            early=True,
        ),
        MaintenanceTask(
            name=IMPORTED_PASTS,
            every_s=PASTS_S,
            first_after_s=FINDINGS_S,
            work=lambda: _judge_pasts(config, store),
            apart=True,
        ),
        MaintenanceTask(
            name="sealed days",
            every_s=DAY_MS / 1000,
            first_after_s=MENDING_AFTER_S,
            work=lambda: _mend(store),
            apart=True,
        ),
        MaintenanceTask(
            name="sealing and retention",
            every_s=KEEPING_S,
            first_after_s=60,
            work=lambda: _keep(config, store, clock.now_ms()),
            apart=bool(config.archive.address),
        ),
    )


def seal_before_ms(now_ms: int, after_days: float) -> int:
    """Whole UTC days that ended so many days ago may be sealed; pure."""
    return int((now_ms - after_days * DAY_MS) // DAY_MS * DAY_MS)


def _judge_pasts(config: "Config", store: "Store") -> None:
    from service.usecases.judge import judge_pasts

    judge_pasts(config, store, most=1)  # a month at a time: what takes longer than its turns looks stuck


def _mend(store: "Store") -> None:
    store.mend_sealed()


def _checkpoint(store: "Store") -> None:
    from service.server.memory_limits import give_back

    store.checkpoint()
    for _ in range(SHED_TRIES):
        if store.shed():
            break
        sleep(SHED_EVERY_S)
    give_back()


def _keep(config: "Config", store: "Store", now_ms: int) -> None:
    from collector.store.errors import ArchiveAway
    from collector.store.retention import Retention

    days = config.retention
    store.seal_days(seal_before_ms(now_ms, days.seal_after_days))
    retention = Retention(
        samples_days=days.samples_days,
        process_samples_days=days.process_samples_days,
        minutes_days=days.minutes_days,
        hours_days=days.hours_days,
        jobs_days=days.jobs_days,
        consents_days=days.consents_days,
        settled_days=SETTLED_DAYS,
        with_copy_only=bool(config.archive.address),
    )
    away = None
    try:
        if retention.with_copy_only:
            _archive(config, store, retention, now_ms)
    except ArchiveAway as error:
        away = error
    # All the same: a bucket that is away holds up only what has no copy yet.
    store.apply_retention(retention, now_ms)
    if away is not None:
        raise away


def _archive(config: "Config", store: "Store", retention: "Retention", now_ms: int) -> None:
    """Copy what the retention is about to let go of. Raises ArchiveAway."""
    from collector.store.archive import archive_days
    from collector.store.bucket import ArchivePlace
    from collector.store.retention import cut_ms, is_settled

    archive = config.archive
    place = ArchivePlace(
        address=archive.address, endpoint=archive.endpoint, region=archive.region, ca_file=archive.ca_file
    )
    archive_from_ms = None
    if archive.keep_days:
        with store.reader() as connection:
            if is_settled(connection, retention, now_ms):
                archive_from_ms = cut_ms(now_ms, archive.keep_days)
    archive_days(store, place, cut_ms(now_ms, retention.samples_days), archive_from_ms)
