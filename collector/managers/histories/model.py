"""What a file of past jobs says of each of its records. Pure values; no file is opened here."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PastJob:
    """A job that ran and is over. Times are seconds, since 1970 or since the file's own beginning.

    ``key`` is its number as the file writes it, the task of an array included. ``gpus`` is a whole number,
    or a part of one GPU below 1. ``gpu_models`` are those that it asked for; none named is any. ``nodes`` are
    where it ran, none where the file doesn't say. ``topology`` is "node" where it had to lie on
    one, "prefer-node" where it had better, else "any".
    """

    key: str
    submitted_s: float
    started_s: float
    ended_s: float
    gpus: float
    user: str | None = None
    project: str | None = None
    name: str | None = None
    gpu_models: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    topology: str = "any"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A record that is well formed and no job that ran on GPUs and is over; ``reason`` is counted."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that makes no sense; ``reason`` says what and is shown with its line."""

    reason: str


Record = PastJob | LeftOut | Unreadable

NOT_OVER = LeftOut("not over when the file was written: how long they run is not known")
NEVER_RAN = LeftOut("never started")
NO_GPU = LeftOut("asked for no GPU")
INSTANCES = LeftOut("held instances of MIG, whose part of a GPU is not told")
STEP = LeftOut("steps of jobs, which are counted with their jobs")


class HistoryError(ValueError):
    """A file as a whole is no history of jobs; the message says what was found and what would do."""
