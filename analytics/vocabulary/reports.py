"""The reports in words, in the order in which they are offered. Pure.

The command line reads this file at each start, so it loads nothing else of ours (a dataclass costs 0.4 ms).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class ReportKind(StrEnum):
    """The reports there are."""

    CLUSTER_WEEK = "cluster-week"
    PROJECT_WEEK = "project-week"
    MY_WEEK = "my-week"
    RIGHT_SIZING = "right-sizing"
    CHARGEBACK = "chargeback"
    WAITED = "waited"


class ReportWords(NamedTuple):
    """One report: its label on a screen, and what is in it."""

    label: str
    says: str


REPORTS: Mapping[ReportKind, ReportWords] = {
    ReportKind.CLUSTER_WEEK: ReportWords(
        label="Cluster", says="the whole cluster: given against used, states, money, the largest wastes"
    ),
    ReportKind.PROJECT_WEEK: ReportWords(
        label="A project", says="one project: its people and jobs (--project)"
    ),
    ReportKind.MY_WEEK: ReportWords(
        label="A person", says="one person's own jobs and what to change (--user, else you)"
    ),
    ReportKind.RIGHT_SIZING: ReportWords(
        label="Right-sizing",
        says="running jobs for which a smaller share, MIG profile or model would have done",
    ),
    ReportKind.CHARGEBACK: ReportWords(
        label="Chargeback", says="GPU-hours held and used with their price, by project and person"
    ),
    ReportKind.WAITED: ReportWords(
        label="Who waited", says="whose jobs waited for GPUs at Slurm while others held GPUs idle"
    ),
}
