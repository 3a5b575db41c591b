"""Has all that a store holds judged as of an instant, and keeps what was said: the service each minute, an
import of history once at its end. What was over in an imported past is judged once, and again when the rules
have changed since.
"""

import logging
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analytics.model import Analysis
    from collector.store.database import Store
    from service.config.model import Config

log = logging.getLogger(__name__)

UNSETTLED_MS = 600_000
"""The newest five minutes of an import are not noted as done; they are judged with it."""


def judge(config: "Config", store: "Store", now_ms: int) -> None:
    """Make what is to be said at ``now_ms`` the newest judgement. Blocks. Raises store errors."""
    from analytics.assess import finding_rows, pattern_rows, unjudged_rows
    from collector.store.judgements import Judgement

    try:
        analysis = _assessed(config, store, now_ms)
    except Exception:
        if not store.mend_sealed():  # a sealed day that is damaged is one cause that goes away by this
            raise
        analysis = _assessed(config, store, now_ms)
    judgement = Judgement(
        findings=finding_rows(analysis),
        patterns=pattern_rows(analysis, config.findings),
        unjudged=unjudged_rows(analysis),
    )
    store.write_judgement(judgement, now_ms)


def judge_imported(config: "Config", store: "Store") -> None:
    """The same as of the newest sample: where no service runs, nothing newer is known of any GPU.

    Does nothing in a store without samples.
    """
    with store.reader() as connection:
        newest = connection.execute("SELECT epoch_ms(max(ts)) FROM latest").fetchone()
    if newest is not None and newest[0] is not None:
        judge(config, store, int(newest[0]))


def judge_pasts(
    config: "Config",
    store: "Store",
    most: int | None = None,
    tell: Callable[[float], None] = lambda _: None,
) -> int:
    """Judge what was over in the imported ranges that these rules have not judged yet; how many of them.

    ``most`` of them at once. What has no samples any more stays as it was judged. Blocks, for long where much
    was imported: a range is kept when all of it is judged. Raises store errors. ``tell`` hears now and then
    what part of a range is done, 0 to 1; what it raises ends the judging, and the range is judged from its
    beginning the next time.
    """
    from analytics.rules_version import rules_version
    from collector.store.past_findings import pasts_to_judge

    rules = rules_version(config.findings)
    with store.reader() as connection:
        spans = pasts_to_judge(connection, rules)
    judged = (span for span in spans if _judge_past(config, store, span, rules, tell=tell))
    return sum(1 for _ in islice(judged, most))


def _judge_past(
    config: "Config", store: "Store", span: tuple[int, int], rules: str, *, tell: Callable[[float], None]
) -> bool:
    from analytics.past_findings import MINUTE_MS, past_findings
    from collector.store.past_findings import DAY_MS, measured_from, write_past_findings

    with store.reader() as connection:
        from_ms, to_ms = measured_from(connection, span), span[1] + UNSETTLED_MS
        if from_ms is None:
            return False
        wide = ((from_ms - DAY_MS) // MINUTE_MS * MINUTE_MS, -(-to_ms // MINUTE_MS) * MINUTE_MS)
        tick_ms = round(config.collect.tick_s * 1000)
        found = past_findings(connection, wide, config.findings, tick_ms, tell=tell)
        if measured_from(connection, span) != from_ms:
            return False  # samples were let go of meanwhile: the next look knows which
    rows = [row for row in found.rows if from_ms < int(str(row["over_ms"])) <= to_ms]
    with store.writing("keeping what was found in an imported past") as connection:
        write_past_findings(connection, rows, (from_ms, to_ms), rules)
    if found.left_out:
        log.warning(
            "an imported past was judged at its %d dearest moments; %d ends of holds and rests are left out",
            found.moments,
            found.left_out,
        )
    return True


def _assessed(config: "Config", store: "Store", now_ms: int) -> "Analysis":
    from analytics.assess import assess

    with store.reader() as connection:
        return assess(connection, now_ms, config.findings, round(config.collect.tick_s * 1000))
