"""Who wasted a range's GPU-hours, asked of a store or a service: for ``fallow waste`` and the overview."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from analytics import text
from service.summaries.waste_table import Waste, waste_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.client.queries import Client
    from service.schemas.rows import FindingsRow, UnjudgedPastsRow, UnjudgedRow
    from service.summaries.waste_table import Ledger

LATELY = timedelta(days=1)
"""Of several kinds that are open about a job, the one with most hours of this time is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What was judged until now; what each is, ``service.summaries.waste_table.waste_table`` says."""

    newest: str | None
    is_judged: bool
    open_now: "Sequence[FindingsRow] | None"
    unjudged: "Sequence[UnjudgedRow]"
    pasts: "Sequence[UnjudgedPastsRow]"


def wasted(
    client: "Client", by: str, span: tuple[datetime, datetime], filters: Mapping[str, object]
) -> tuple[Waste, ...]:
    """Who wasted anything between two whole minutes, the largest first. Blocks. Raises ``ClientError``.

    ``by`` is ``user``, ``project`` or ``job``; ``filters`` are those of most queries, ``None`` for all.
    """
    between = {"from_ts": span[0], "to_ts": span[1]}
    # a finding, or a case of an alert, may be opened in the minute in which the range ends
    around = {"from_ts": span[0], "to_ts": span[1] + timedelta(minutes=1)}
    who = {name: value for name, value in filters.items() if name != "model"}
    judged = judged_now(client, span[1], filters)
    return waste_table(
        by,
        _ledger(client, by, {**between, **filters}),
        client.rows("jobs", **between, **filters),
        client.rows("findings", **around, **filters),
        client.rows("alerts", **around, **who),
        newest=judged.newest,
        is_judged=judged.is_judged,
        open_now=judged.open_now,
        unjudged=judged.unjudged,
        pasts=judged.pasts,
    )


def judged_now(client: "Client", end: datetime, filters: Mapping[str, object]) -> Judged:
    """What is judged of a range that ends at ``end``. Blocks. Raises ``ClientError``."""
    judged = client.rows_if_kept("judgement")
    moments = [row["judged_at"] for row in judged or () if row["judged_at"]]
    return Judged(
        newest=client.rows("span")[0]["last_ts"],
        is_judged=judged is None or bool(moments),  # an older store does not tell, and is believed to be
        open_now=open_now(client, end, filters, max(moments, default=None)),
        unjudged=client.rows_if_kept("unjudged", **filters) or (),
        pasts=client.rows_if_kept("unjudged_pasts") or (),
    )


def open_now(
    client: "Client", end: datetime, filters: Mapping[str, object], judged_at: str | None
) -> "Sequence[FindingsRow] | None":
    """What is open now, where the range ends before that; ``None``: it is in the range's own findings."""
    if judged_at is None or (at := text.aware(datetime.fromisoformat(judged_at))) <= text.aware(end):
        return None
    now = at.replace(second=0, microsecond=0)
    parameters = {"from_ts": now - LATELY, "to_ts": now + timedelta(minutes=1), "open": True}
    return client.rows("findings", **parameters, **filters)


def _ledger(client: "Client", by: str, parameters: Mapping[str, object]) -> "Sequence[Ledger]":
    if by == "project":
        return client.rows("ledger_by_project", **parameters)
    return (
        client.rows("ledger_by_job", **parameters)
        if by == "job"
        else client.rows("ledger_by_user", **parameters)
    )
