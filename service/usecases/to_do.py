"""What is asked of a store or a service for the page of what there is to do."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from advisor.policies.idle_escalation import KEEP_HOURS
from service.summaries.to_do import Measured
from service.usecases.wasted import judged_now

if TYPE_CHECKING:
    from service.client.queries import Client

LONGEST_KEEP = timedelta(hours=max(KEEP_HOURS))
"""An older word is over."""


def measured(client: "Client", span: tuple[datetime, datetime], filters: Mapping[str, object]) -> Measured:
    """What each job of a range wasted, and what was found of it. Blocks. Raises ``ClientError``.

    ``span`` is two whole minutes; ``filters`` are those of most queries, ``None`` for all.
    """
    between = {"from_ts": span[0], "to_ts": span[1], **filters}
    # a finding may be opened in the minute in which the range ends
    around = between | {"to_ts": span[1] + timedelta(minutes=1)}
    judged = judged_now(client, span[1], filters)
    return Measured(
        ledger=client.rows("ledger_by_job", **between),
        jobs=client.rows("jobs", **between),
        findings=client.rows("findings", **around),
        open_now=judged.open_now,
        spoken=client.rows_if_kept("spoken", from_ts=datetime.now(UTC) - LONGEST_KEEP) or (),
        newest=judged.newest,
        is_judged=judged.is_judged,
        unjudged=judged.unjudged,
        pasts=judged.pasts,
    )
