"""What a page says when it has nothing to show: what happened, and what to do about it. Pure."""

from dataclasses import dataclass

from service.client import (
    BadParameter,
    ClientError,
    NoData,
    NotAllowed,
    QueryTooSlow,
    ServiceBusy,
    ServiceDown,
    ServiceOlder,
    StoreUnusable,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A heading, what was found, and the next step; ``command`` is something to type."""

    title: str
    found: str
    todo: str
    command: str | None = None


NOTHING_YET = Notice(
    title="Nothing measured yet",
    found="The store is there, and no sample has reached it.",
    todo="The first one comes within a tick (10 s) of the start. If it does not, this says why:",
    command="fallow doctor",
)
NO_MATCH = Notice(
    title="No GPU matches these filters",
    found="Nothing in this time range belongs to what was chosen above.",
    todo="Take a filter away, or widen the time range.",
)
NO_SUCH_GPU = Notice(
    title="No such GPU",
    found="The address names a GPU that is not in the store.",
    todo="Pick one from the cluster's map.",
)
NO_SUCH_JOB = Notice(
    title="This job held nothing here",
    found="The address names a job that held no GPU in this time range, or that is not in the store.",
    todo="Widen the time range, or pick another job.",
)


def explain_acting(error: ClientError) -> Notice:
    """The notice for a question that only a service of this version answers."""
    match error:
        case ServiceOlder():
            return Notice(
                title="The service that runs is older than this page",
                found=str(error),
                todo="It measures, and knows nothing of jobs that are submitted. Stop it and start it again, "
                "with the Fallow that this dashboard is from:",
                command="fallow serve",
            )
        case ServiceDown():
            return Notice(
                title="No service runs",
                found=str(error),
                todo="Jobs are queued, started and acted on by a running service; what was measured can be "
                "read without one. Jobs that run go on. Start it again:",
                command="fallow serve",
            )
        case _:
            return explain(error)


def explain(error: ClientError) -> Notice:
    """The notice for a question that could not be answered; the error's own words are kept."""
    message = str(error)
    match error:
        case NoData():
            return Notice(
                title="There is no store yet",
                found=message,
                todo="Start the service and the dashboard together; the first samples come within seconds.",
                command="fallow up",
            )
        case NotAllowed():
            return Notice(
                title="The service does not let this dashboard in",
                found=message,
                todo="It must run as the user that owns the token file, or be given the token in "
                "FALLOW_TOKEN. Then try again.",
            )
        case ServiceDown():
            return Notice(
                title="The service does not answer",
                found=message,
                todo="Nothing is measured while it is down, and that time will be unknown. Start it again:",
                command="fallow serve",
            )
        case StoreUnusable():
            return Notice(
                title="The store cannot be opened",
                found=message,
                todo="Nothing was changed. This looks at what is wrong:",
                command="fallow doctor",
            )
        case ServiceBusy() | QueryTooSlow():
            return Notice(
                title="That took too long",
                found=message,
                todo="Choose a shorter time range or fewer GPUs, or try again in a moment.",
            )
        case BadParameter():
            return Notice(
                title="The address asks for something unreadable",
                found=message,
                todo="Take the filters away, or start from the overview.",
            )
        case _:
            return Notice(
                title="The service met an error of its own",
                found=message,
                todo="Measuring goes on. Its log says more; try again, and if it stays, report it.",
            )
