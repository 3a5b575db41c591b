"""A past job as a row of text, and the run that such a row tells of: how jobs travel into a store. Pure."""

from collections.abc import Mapping

from collector.managers.histories.model import PastJob
from collector.managers.histories.values import gpus_in, moment_s, nodes_in, word
from collector.managers.slurm.sacct_text import EARLIEST_S, LATEST_S, AccountedRun

COLUMNS = ("number", "user", "project", "name", "submitted", "started", "ended", "gpus", "models", "nodes")


def cells_of(job: PastJob) -> list[str]:
    """A job's cells, in the order of COLUMNS; times are seconds since 1970."""
    return [
        job.key,
        *(name or "" for name in (job.user, job.project, job.name)),
        *(f"{at_s:.3f}" for at_s in (job.submitted_s, job.started_s, job.ended_s)),
        f"{job.gpus:g}",
        ",".join(job.gpu_models),
        ",".join(job.nodes),
    ]


def run_of(row: Mapping[str, str]) -> AccountedRun | str:
    """The run that a row tells of, or why it is none that a store can have."""
    try:
        times = [moment_s(row[name], name) for name in ("submitted", "started", "ended")]
        gpus = gpus_in(row["gpus"], "gpus")
    except ValueError as error:
        return str(error)
    submitted_s, started_s, ended_s = times
    number = word(row["number"])
    if number is None:
        return "without a number or name of its own"
    if submitted_s is None or started_s is None or ended_s is None:
        return "without a submission, a start or an end"
    if not EARLIEST_S <= submitted_s <= started_s < ended_s <= LATEST_S:
        return "its times are of no calendar, or not in their order"
    if gpus < 1:
        return "it held a part of a GPU, which is not told apart from a whole one"
    return AccountedRun(
        cluster="",
        number=number,
        shown_id=number,
        user=word(row["user"]),
        project=word(row["project"]),
        name=word(row["name"]),
        partition="",
        qos="",
        reservation="",
        state_name="",
        exit_code="",
        submitted_ms=round(submitted_s * 1000),
        started_ms=round(started_s * 1000),
        ended_ms=round(ended_s * 1000),
        nodes=nodes_in(row["nodes"]),
        gpus=int(gpus),
        gpu_types=word(row["models"]) or "",
        shards=0,
        asked_gpus=None,
        limit_s=None,
    )
