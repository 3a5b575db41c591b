"""What ``fallow doctor`` says where one cluster seems to have two names: of labels, or a label and Slurm."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from analytics import text
from service.doctor_checks.results import Finding, Verdict

if TYPE_CHECKING:
    from service.schemas.rows import ClustersAlikeRow

SILENT = timedelta(hours=1)
"""Two clusters that are both measured are two. One that was not for an hour is down, or has another name."""


def clusters(data: Path) -> Iterator[Finding]:
    """A finding for each two names that may be one cluster's; nothing where no store is. Blocks."""
    from service.client import ClientError, connect

    try:
        with connect(data) as client:
            rows = client.rows_if_kept("clusters_alike") or ()
    except ClientError:  # no store yet, or one that another finding speaks of
        return
    for row in rows:
        if (finding := alike(row)) is not None:
            yield finding


def alike(row: "ClustersAlikeRow") -> Finding | None:
    """What two names mean, and what to do; ``None`` where they are two clusters. Pure."""
    one, other, nodes = row["cluster"], row["other"], text.many(row["nodes"], "node")
    rename = f"have the label say {one}: external_labels of its Prometheus, or a relabelling rule"
    if row["told_by"] == "slurm":
        return Finding(
            subject="Cluster names",
            verdict=Verdict.LIMITED,
            found=f"Slurm calls its cluster {one}, the label of the GPUs on {nodes} of it says {other}: "
            "once a second cluster is in view, a job that both name is two",
            advice=f"if they are one, {rename}",
        )
    last, other_last = row["last_ts"], row["other_last_ts"]
    if last is None or other_last is None:
        return None
    since = datetime.fromisoformat(last)
    if datetime.fromisoformat(other_last) - since < SILENT:
        return None
    return Finding(
        subject="Cluster names",
        verdict=Verdict.LIMITED,
        found=f"{nodes} of the clusters {one} and {other} have one name, and nothing of {one} was measured "
        f"since {text.aware(since):%Y-%m-%d %H:%M} UTC: if the label was renamed, nodes and jobs bear both",
        advice=f"if it was, {rename}; if {one} is another cluster, nothing is to be done",
    )
