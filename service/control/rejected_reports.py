"""Reports that were not believed: kept for the findings, written into the security log, told to who asks.

Each is noted at most once a minute for a job, however often it is said: a launcher reports every few seconds.
"""

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.jobs.claims import Unproven
from advisor.jobs.lifecycle import leased
from advisor.jobs.model import JobRecord, Report
from advisor.statements import statement
from collector.model import JobId
from collector.store.errors import StoreError
from service.logs import SecurityLog

if TYPE_CHECKING:
    from advisor.jobs.double_leases import Ended
    from advisor.jobs.job_store import Register
    from collector.clock import Clock
    from collector.store.database import Store

log = logging.getLogger(__name__)

NOTED_MS = 60_000
"""A launcher reports every few seconds, and each note is a commit: once a minute is told what is still so."""
SHOWN_MS = 600_000
"""As long as the finding stands (``analytics.findings.unproven``)."""
MOST_KNOWN = 4_096
"""Jobs of which the newest doubt is remembered; the one noted longest ago is forgotten first."""
MOST_GPUS = 64
"""GPUs of one claim that are kept: more than a machine has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Noted:
    at_ms: int
    why: str


class Doubts:
    """Keeps them, from the making on. Safe from any thread but for the order of two words of one job."""

    def __init__(self, store: "Store", clock: "Clock", register: "Register") -> None:
        self._store, self._clock = store, clock
        self._security = SecurityLog(lambda: clock.monotonic_ms() / 1000)
        self._noted: OrderedDict[JobId, _Noted] = OrderedDict()
        register.doubt = self.note
        for double in register.doubles:
            self._note_double(double)

    def note(self, entry: JobRecord, report: Report, claim: Unproven) -> None:
        """A report claims what its job was not given. Blocks for a commit, once a minute."""
        now_ms, doubt = self._clock.now_ms(), self._noted.get(entry.id)
        if doubt is not None and now_ms - doubt.at_ms < NOTED_MS:
            return
        self._noted[entry.id] = _Noted(at_ms=now_ms, why=claim.why)
        self._noted.move_to_end(entry.id)
        if len(self._noted) > MOST_KNOWN:
            self._noted.popitem(last=False)
        user, strange = entry.submission.user, [uuid for uuid in report.gpus if uuid not in leased(entry)]
        self._security.write(
            "report-not-believed",
            user,
            job=entry.id,
            gpus=",".join(strange[:MOST_GPUS]) or None,
            reason=claim.why,
        )
        values = {
            "job": entry.id,
            "user_name": user,
            "gpus": strange[:MOST_GPUS],
            "at_ms": now_ms,
            "why": claim.why[:1_000],
        }
        if strange:
            try:
                self._store.together(
                    "keeping a claim without proof",
                    lambda connection: connection.execute(statement("put_unproven_claims"), values),
                )
            except StoreError as error:  # the report itself is taken or not without it
                log.warning("a claim of %s could not be kept: %s", values["job"], error)

    def told(self, entry: JobRecord) -> tuple[str, ...]:
        """What is to be said of the job to who asks about it."""
        doubt = self._noted.get(entry.id)
        if doubt is None or self._clock.now_ms() - doubt.at_ms > SHOWN_MS:
            return ()
        return (f"Its launcher is not believed: {doubt.why}.",)

    def _note_double(self, double: "Ended") -> None:
        """A lease of an older store was one too many, and is ended."""
        self._security.write(
            "double-lease-ended",
            double.entry.submission.user,
            job=double.entry.id,
            gpus=double.gpu,
            reason=f"the GPU is leased to {double.stays}",
        )
