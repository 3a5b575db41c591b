"""What to write to a job's owner: what was found of the job, what would help, how to object. Pure.

A person copies it into their own mail or chat: Fallow sends nothing here.
"""

from collections.abc import Sequence
from typing import NamedTuple

from analytics.vocabulary.findings import words_of_kind

KEEP = (
    "Should it stay as it is, write back, or type `fallow keep {job}`, and nobody is told of it for a while."
)
DOUBT = "If this is wrong, write back too: what is measured may not be all that the job does."


class Said(NamedTuple):
    """What was found of one kind; ``evidence`` as it is kept, of which what to do may depend."""

    kind: str
    sentence: str
    evidence: object = None


def message(
    user: str | None, job: str, name: str | None, findings: Sequence[Said], *, job_kind: str | None
) -> str:
    """The message. ``findings`` is the owner's own doing, what cost most first; it is not empty."""
    of = job if name is None or name == job else f"{name} ({job})"
    remedies = [
        words.remedy_for(job_kind, each.evidence)
        for each in findings
        if (words := words_of_kind(each.kind)) is not None
    ]
    lines = [f"Hello {user}," if user else "Hello,", "", f"about your job {of}:", ""]
    lines += [f"- {each.sentence}" for each in findings]
    lines += ["", "What would help:"]
    lines += [f"- {remedy.replace('JOB', job)}" for remedy in dict.fromkeys(remedies)]
    lines += ["", KEEP.format(job=job), DOUBT]
    return "\n".join(lines)
