"""What is asked of a store or a service for the page of what there is to do."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from service.summaries.to_do import Measured
from service.usecases.wasted import open_now

if TYPE_CHECKING:
    from service.client.queries import Client

LONGEST_KEEP = timedelta(hours=24)
"""A job is kept for 4, 8 or 24 hours: an older word is over."""


def measured(client: "Client", span: tuple[datetime, datetime], filters: Mapping[str, object]) -> Measured:
    """What each job of a range wasted, and what was found of it. Blocks. Raises ``ClientError``.

    ``span`` is two whole minutes; ``filters`` are those of most queries, ``None`` for all.
    """
    between = {"from_ts": span[0], "to_ts": span[1], **filters}
    # a finding may be opened in the minute in which the range ends
    around = between | {"to_ts": span[1] + timedelta(minutes=1)}
    judged = client.rows_if_kept("judgement")
    moments = [row["judged_at"] for row in judged or () if row["judged_at"]]
    return Measured(
        ledger=client.rows("ledger_by_job", **between),
        jobs=client.rows("jobs", **between),
        findings=client.rows("findings", **around),
        open_now=open_now(client, span[1], filters, max(moments, default=None)),
        spoken=client.rows_if_kept("spoken", from_ts=datetime.now(UTC) - LONGEST_KEEP) or (),
        newest=client.rows("span")[0]["last_ts"],
        is_judged=judged is None or bool(moments),  # an older store does not tell
        unjudged=client.rows_if_kept("unjudged", **filters) or (),
    )
