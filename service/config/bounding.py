"""What can be configured of what one person may take of the service, and why each bound is what it is."""

from dataclasses import dataclass
from enum import StrEnum

from service.config.fields import bounded, told


class NeverFitting(StrEnum):
    """What becomes of a submission that the whole cluster could not hold."""

    REFUSE = "refuse"
    WAIT = "wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsConfig:
    """What one person may take.

    So that nobody keeps others from asking. A person is an account of this machine with all the uids that it
    was lent for containers (subuid(5)), or whoever a token names; operators are not bounded. What is refused
    is answered with 429, and says which bound it was, how much it allows, and when to ask again
    ([the bounds](api.md#bounds)).
    """

    jobs: int = bounded(
        1000,
        1,
        100_000,
        "jobs of one person that have not ended; each has a launcher, so more are a mistake",
    )
    submitted_mib: int = bounded(
        16, 1, 4096, "MiB of commands, folders and names of those jobs; a thousand ordinary ones take one"
    )
    orders_per_minute: int = bounded(
        10, 1, 100_000, "submissions and other orders in the long run, for each leaves rows that are kept"
    )
    orders_at_once: int = bounded(
        1000, 1, 1_000_000, "orders that may come at once after a rest, as when a script submits its jobs"
    )
    kept_mib_per_day: int = bounded(
        16,
        1,
        65_536,
        "MiB of submissions, consents and other orders in a day, for they are kept (`[retention] "
        "jobs_days`); a thousand ordinary jobs take one",
    )
    calls_per_minute: int = bounded(
        3000,
        60,
        1_000_000,
        "requests of any kind: a dashboard with ten readers makes a third of that; 30 more for each own "
        "job, whose launcher makes 12",
    )
    changes_per_minute: int = bounded(
        300,
        10,
        1_000_000,
        "launchers' reports that say something new, each of which is written down; 6 more for each own job",
    )
    calls_at_once: int = bounded(
        8, 1, 48, "requests about jobs that are worked on at once, of the 48 that the service works on"
    )
    questions: int = bounded(
        2,
        1,
        64,
        "named queries that are worked on at once; at most half of `api.query_threads`, at least one",
    )
    connections: int = bounded(
        64, 4, 10_000, "open connections beside launchers' streams; a verb takes one, a browser at most six"
    )
    reserved_connections: int = bounded(
        128, 0, 10_000, "of `api.connections`: for operators, and for owners of jobs that hold GPUs"
    )
    never_fitting: str = told(
        NeverFitting.REFUSE.value,
        'a job that wants more GPUs of one kind than there are: `"refuse"` it at once, or let it `"wait"` '
        "where GPUs are still to come",
    )

    def __post_init__(self) -> None:
        values = [each.value for each in NeverFitting]
        if self.never_fitting not in values:
            raise ValueError(f"never_fitting is one of {', '.join(values)}, not {self.never_fitting!r}")
