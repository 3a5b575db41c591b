"""How the ids of jobs that were submitted to Fallow are told from all others. Pure.

Stored ids begin so, and so do those that people type; queries spell it as well.
"""

SUBMITTED = "fallow:"
"""What the ids of submitted jobs begin with."""


def is_submitted(job: str) -> bool:
    """Whether a job was submitted to Fallow, by its id."""
    return job.startswith(SUBMITTED)


def submitted_id(number: int | str) -> str:
    """The id of the submitted job of this number, as people type it for short."""
    return f"{SUBMITTED}{number}"
