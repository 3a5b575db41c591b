"""What to call the holders of a frame. Pure."""

import pandas as pd

MANAGED = ("partition", "qos", "account", "cluster")
"""A workload manager's own keys; each has a query ``ledger_by_KEY``."""


def managed(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``ledger_by_`` one of ``MANAGED`` that somebody held, with a ``name`` to show."""
    holders = frame[frame["held_gpu_hours"] > 0]
    return holders.assign(name=holders["key"].astype(object).where(holders["key"].notna(), "not known"))


def named(frame: pd.DataFrame, by: str) -> pd.DataFrame:
    """The rows with a ``name`` to show and no holder twice; who is not known is said to be unknown."""
    column = "user_name" if by == "people" else "project"
    names = frame[column].astype(object).where(frame[column].notna(), "unknown")
    if by == "people":
        several = names.duplicated(keep=False)
        projects = frame["project"].astype(object).where(frame["project"].notna(), "no project")
        names = names.where(~several, names.astype(str) + " · " + projects.astype(str))
    return frame.assign(name=names)
