"""How the ids of jobs that were submitted to Fallow are told from all others, and ids that came again. Pure.

Stored ids are made so, and so are those that people type; queries spell it as well.
"""

import re

SUBMITTED = "fallow:"
"""What the ids of submitted jobs begin with."""
_AGAIN = re.compile(r"(?!pid:)(.+)@\d{9,10}")
"""An id that came again bears the second of its first hold (docs/decisions/0114): nine or ten digits from
1973 to 2286. A process's id ends with its start in milliseconds, and is no other's."""


def is_submitted(job: str) -> bool:
    """Whether a job was submitted to Fallow, by its id."""
    return job.startswith(SUBMITTED)


def submitted_id(number: int | str) -> str:
    """The id of the submitted job of this number, as people type it for short."""
    return f"{SUBMITTED}{number}"


def told_id(job: str) -> str:
    """The id as its source tells it, without what tells it from an earlier person's job of the same id."""
    again = _AGAIN.fullmatch(job)
    return job if again is None else again[1]
