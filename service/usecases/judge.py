"""Has all that a store holds judged as of an instant, and keeps what was said: the service each minute, an
import of history once at its end.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analytics.model import Analysis
    from collector.store.database import Store
    from service.config.model import Config


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


def _assessed(config: "Config", store: "Store", now_ms: int) -> "Analysis":
    from analytics.assess import assess

    with store.reader() as connection:
        return assess(connection, now_ms, config.findings, round(config.collect.tick_s * 1000))
