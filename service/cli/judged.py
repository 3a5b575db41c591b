"""When all was last judged, in words: for the verbs that tell of findings."""

from datetime import datetime

from service.cli import words
from service.client import Client

NEVER = "nothing was judged yet"
LATE_S = 300.0
"""Five judgements that did not come."""


def lateness(client: Client, now: datetime) -> str | None:
    """What to say where nobody has looked for a while, or ever; an older store does not tell."""
    rows = client.rows_if_kept("judgement")
    if rows is None:
        return None
    age_s = words.since(rows[0]["judged_at"], now) if rows else None
    if age_s is None:
        return NEVER
    return f"judged last {words.span(age_s)} ago" if age_s > LATE_S else None
