"""What came of a command to a launcher, as its job's record shows it. Pure."""

from advisor.jobs.lifecycle import lapsing
from advisor.jobs.model import (
    CancelCommand,
    JobRecord,
    JobState,
)
from advisor.outcomes import Done, Failed, Outcome


def outcome(entry: JobRecord, number: int) -> Outcome | None:
    """What came of directive ``number``, by how its entry stands; ``None`` while that is open. Pure."""
    newest = 0 if entry.directive is None else entry.directive.number
    if entry.acknowledged >= number:
        if entry.failed is not None and newest == number:
            return Failed(found=entry.failed)
        return Done(note=entry.message)
    if entry.state is JobState.ENDED:
        if newest == number and isinstance(entry.directive, CancelCommand):
            return Done(note=entry.message)
        return Failed(found=f"{entry.id} ended before it was carried out")
    if lapsing(entry):
        return Failed(found=f"the launcher of {entry.id} is gone")
    return None
