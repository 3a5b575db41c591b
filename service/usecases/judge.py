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
    from collector.store.past_findings import Past
    from service.config.model import Config

log = logging.getLogger(__name__)

UNSETTLED_MS = 600_000
"""The newest five minutes of an import are not noted as done; they are judged with it."""


def judge(config: "Config", store: "Store", now_ms: int, *, of_past: bool = False) -> None:
    """Make what is to be said at ``now_ms`` the newest judgement. Blocks. Raises store errors.

    ``of_past``: nobody is told of it, and who judges the past later says when it was over.
    """
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
    store.write_judgement(judgement, now_ms, of_past=of_past)


def judge_imported(config: "Config", store: "Store") -> None:
    """The same as of the newest sample: where no service runs, nothing newer is known of any GPU.

    Does nothing in a store without samples.
    """
    with store.reader() as connection:
        newest = connection.execute("SELECT epoch_ms(max(ts)) FROM latest").fetchone()
    if newest is not None and newest[0] is not None:
        judge(config, store, int(newest[0]), of_past=True)


def judge_pasts(
    config: "Config",
    store: "Store",
    most: int | None = None,
    tell: Callable[[float], None] = lambda _: None,
    *,
    at_once: int | None = None,
) -> int:
    """Judge what was over in the imported ranges that these rules have not judged yet; how many of them.

    ``most`` of them. What has no samples any more stays as it was judged. Blocks, for long where much was
    imported: a range is kept piece by piece, each of ``at_once`` moments. Raises store errors. ``tell``
    hears now and then what part of a range is done, 0 to 1; what it raises ends the judging, which goes on
    where it was the next time.
    """
    from analytics.rules_version import rules_version
    from collector.store.past_findings import pasts_to_judge

    rules = rules_version(config.findings)
    with store.reader() as connection:
        pasts = pasts_to_judge(connection, rules)
    judged = (past for past in pasts if _judge_past(config, store, past, rules, tell=tell, at_once=at_once))
    return sum(1 for _ in islice(judged, most))


def _judge_past(
    config: "Config",
    store: "Store",
    past: "Past",
    rules: str,
    *,
    tell: Callable[[float], None],
    at_once: int | None,
) -> bool:
    from analytics.past_findings import MINUTE_MS, past_slices
    from collector.store.past_findings import DAY_MS, measured_from, write_past_findings

    span = (past.judged_ms, past.to_ms)
    with store.reader() as connection:
        from_ms, to_ms = measured_from(connection, span), past.to_ms + UNSETTLED_MS
        if from_ms is None:
            return False
        wide = ((past.from_ms - DAY_MS) // MINUTE_MS * MINUTE_MS, -(-to_ms // MINUTE_MS) * MINUTE_MS)
        tick_ms = round(config.collect.tick_s * 1000)
        done_ms, noted_ms = from_ms, past.judged_ms
        for piece in past_slices(
            connection, wide, config.findings, tick_ms, after_ms=from_ms, at_once=at_once, tell=tell
        ):
            if measured_from(connection, span) != from_ms:
                return False  # samples were let go of meanwhile: the next look knows which
            until_ms = to_ms if piece.until_ms is None else piece.until_ms
            rows = [row for row in piece.rows if done_ms < int(str(row["over_ms"])) <= until_ms]
            with store.writing("keeping what was found in an imported past") as writing:
                write_past_findings(
                    writing, rows, (done_ms, until_ms), rules, noted_from_ms=noted_ms, redone_to_ms=to_ms
                )
            done_ms = noted_ms = until_ms
    if piece.left_out:
        log.warning(
            "an imported past was judged at its %d dearest moments; %d ends of holds and rests are left out",
            piece.moments,
            piece.left_out,
        )
    return True


def _assessed(config: "Config", store: "Store", now_ms: int) -> "Analysis":
    from analytics.assess import assess

    with store.reader() as connection:
        return assess(connection, now_ms, config.findings, round(config.collect.tick_s * 1000))
