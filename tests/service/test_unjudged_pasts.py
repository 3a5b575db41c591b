"""What is said of a past that is not judged yet: of which time, how far it is, in the reader's own zone."""

from datetime import UTC, datetime
from typing import Any, cast
from zoneinfo import ZoneInfo

from analytics import text
from service.summaries.unjudged_pasts import not_judged_yet

PASTS = cast(
    "Any",
    [
        {
            "from_ts": "2026-11-02T00:00:00",
            "judged_to": "2026-11-02T12:00:00",
            "to_ts": "2026-11-03T00:00:00",
        },
        {
            "from_ts": "2026-11-03T00:00:00",
            "judged_to": "2026-11-03T00:00:00",
            "to_ts": "2026-11-04T00:00:00",
        },
    ],
)


def day(first: int, last: int) -> tuple[datetime, datetime]:
    return datetime(2026, 11, first, tzinfo=UTC), datetime(2026, 11, last, tzinfo=UTC)


def test_the_rest_of_a_past_is_told_with_how_far_it_is() -> None:
    """Twelve of 48 hours are judged, whatever part of the rest is in the range."""
    told = "What had ended between 2026-11-02 12:00 UTC and 2026-11-04 00:00 UTC is not judged yet (25% of "
    assert str(not_judged_yet(PASTS, day(1, 10))).startswith(told)
    later = "What had ended between 2026-11-03 00:00 UTC and 2026-11-04 00:00 UTC is not judged yet (25% of "
    assert str(not_judged_yet(PASTS, day(3, 10))).startswith(later)


def test_a_range_of_which_all_is_judged_says_nothing() -> None:
    assert not_judged_yet(PASTS, day(1, 2)) is None
    assert not_judged_yet(PASTS, day(4, 10)) is None
    assert not_judged_yet((), day(1, 10)) is None


def test_both_of_its_times_are_the_readers_own() -> None:
    def in_tokyo(at: datetime) -> str:
        return f"{at.astimezone(ZoneInfo('Asia/Tokyo')):%d %H:%M}"

    told = text.localized(str(not_judged_yet(PASTS, day(1, 10))), in_tokyo)
    assert told.startswith("What had ended between 02 21:00 and 04 09:00 is not judged yet")
