"""What a job's owner allows in the job's own comment: ``--comment="fallow:elastic=2-8,pause"``. Pure.

The comment is the owner's: it may hold anything, and other programs' words stand beside ours. A word that is
not wholly understood allows nothing, and says why.
"""

import re
from dataclasses import dataclass

PROGRAM = "fallow"
"""Before a colon: which of a comment's words are for us."""
WORDS = "pause, elastic=MIN-MAX"
"""What may stand behind it, with commas between."""

TEXT_CHARS = 120
"""Ours: what was written is shown on other people's screens."""

_ELASTIC = re.compile(r"elastic=(\d{1,6})-(\d{1,6})")
_PART_OF = re.compile(r"[0-9A-Za-z]{1,64}:of=\d{1,18}(_\d{1,18})?")
"""A launcher's own: which job this one is a further part of. It allows nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerWord:
    """An owner's word as it was written, and what it means.

    ``pause``: it may be put back into the queue and held, because it saves itself when it is told to end.
    ``problem``: why it was not understood; then it allows nothing.
    """

    text: str
    pause: bool = False
    min_gpus: int | None = None
    max_gpus: int | None = None
    problem: str = ""


def word_of(comment: str) -> OwnerWord | None:
    """The word in a comment; ``None`` where none of it is meant for us."""
    matches = [each for each in re.split(r"[\s;]+", comment) if each.lower().startswith(f"{PROGRAM}:")]
    if not matches:
        return None
    text = " ".join(matches)[:TEXT_CHARS]
    if len(matches) > 1:
        return OwnerWord(text=text, problem="it is said twice, and only one of them can be meant")
    rest = matches[0][len(PROGRAM) + 1 :]
    if _PART_OF.fullmatch(rest):
        return OwnerWord(text=text)
    pause, sizes = False, None
    for part in rest.split(","):
        elastic = _ELASTIC.fullmatch(part)
        if part == "pause":
            pause = True
        elif elastic is not None and 1 <= int(elastic[1]) <= int(elastic[2]) and sizes is None:
            sizes = int(elastic[1]), int(elastic[2])
        else:
            problem = f"{part[:40]!r} is none of its words: {WORDS}"
            return OwnerWord(text=text, problem=problem)
    low, high = sizes or (None, None)
    return OwnerWord(text=text, pause=pause, min_gpus=low, max_gpus=high)
