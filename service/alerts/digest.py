"""Many letters to one receiver as one: a digest. Pure.

What was gathered is told case by case by its newest word; a case that came and went meanwhile is one line.
"""

from collections.abc import Sequence
from dataclasses import replace

from service.alerts.letters import AlertMessage
from service.alerts.model import Turn

MOST = 60
"""So many cases are told in full; of the others only how many there are."""
DIGEST = "digest"


def digest_of(letters: Sequence[AlertMessage], at_ms: int) -> AlertMessage:
    """One letter of all these, which are for one receiver and not none; a single one stays as it is."""
    first = letters[0]
    if len(letters) == 1:
        return replace(first, due_ms=at_ms, gathered=False)
    by_case: dict[int, list[AlertMessage]] = {}
    for letter in letters:
        by_case.setdefault(letter.case, []).append(letter)
    gone = {case for case, words in by_case.items() if _came_and_went(words)}
    open_ones = [words[-1] for case, words in by_case.items() if case not in gone]
    parts = [_head(len(open_ones), len(gone))]
    parts += [f"{place}. {each.title}\n\n{each.text}" for place, each in enumerate(open_ones[:MOST], start=1)]
    if len(open_ones) > MOST:
        parts.append(f"And {len(open_ones) - MOST} more: `fallow alerts` lists all.")
    if gone:
        lines = [f"- {by_case[case][0].title}" for case in list(gone)[:MOST]]
        parts.append("\n".join(("Came and went:", *lines)))
    return replace(
        first,
        case=0,
        turn=DIGEST,
        title=f"{len(by_case)} alerts: {first.title}" if len(by_case) > 1 else first.title,
        text="\n\n".join(parts),
        made_ms=at_ms,
        due_ms=at_ms,
        gathered=False,
        telling=None,
        number=0,
    )


def _came_and_went(words: Sequence[AlertMessage]) -> bool:
    return len(words) > 1 and words[0].turn != Turn.CLOSED and words[-1].turn == Turn.CLOSED


def _head(still: int, gone: int) -> str:
    count = f"{still} case{'' if still == 1 else 's'}"
    return f"{count}, and {gone} that came and went." if gone else f"{count}."
