"""The queue of a workload manager on the page Queue: who waits there, why in plain words, and since when.

The manager's order, and its expected starts; Fallow decides nothing about them.
"""

from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from analytics import text
from service.pages.data import jobs as acting
from service.pages.data import queries
from service.pages.data.jobs import matching
from service.pages.parts.charted import grid
from service.pages.parts.context import Stage
from service.pages.parts.url_state import address, shared
from service.pages.parts.widgets import facts, plain
from service.summaries import waiting
from service.summaries.frames import known_records

if TYPE_CHECKING:
    from streamlit.elements.lib.column_types import ColumnConfig

    from service.schemas.rows import GpusNowRecord, ManagerNodesRecord, ManagerQueueRecord


PER_PAGE = 50
COLUMNS = {
    "shown": "Job",
    "user": "Person",
    "asked": "GPUs",
    "waited": "Waits",
    "why": "Why",
    "expected": "Expected start",
    "name": "Name",
    "project": "Account",
    "where": "Partition",
}


def managed_queue() -> pd.DataFrame:
    """Who waits at workload managers, the next to start first; empty where there are none. Blocks.

    Raises ``ClientError``.
    """
    frame = queries.ask_if_kept("manager_queue")
    if frame is None or "cause" not in frame:
        return pd.DataFrame()
    return frame.rename(columns={"job_name": "name", "user_name": "user"})


def told(queue: pd.DataFrame) -> str:
    """How many wait there, in a sentence without its point."""
    managers = dict.fromkeys(waiting.manager_of(str(row.get("job") or "")) for row in _rows(queue))
    return f"At {' and '.join(managers)} {waiting.counted(_rows(queue))}"


def _manager(part: pd.DataFrame) -> str:
    """Whose queue it is: a cluster is one manager's."""
    return waiting.manager_of(str(part.iloc[0]["job"]))


def draw(stage: Stage, queue: pd.DataFrame) -> None:
    """Each cluster's queue. Blocks while it asks. Raises ``ClientError``."""
    gpus, nodes = queries.ask("gpus_now"), queries.ask("manager_nodes")
    for cluster, part in queue.groupby("cluster", sort=False):
        st.subheader(f"At {_manager(part)}, cluster {plain(cluster)}", anchor=False)
        _facts(part)
        _table(stage, str(cluster), part)
    for sentence in meanwhile(queue, gpus, nodes):
        st.markdown(plain(sentence))


def meanwhile(queue: pd.DataFrame, gpus: pd.DataFrame, nodes: pd.DataFrame) -> tuple[str, ...]:
    """Who has GPUs and uses none, and what keeps free ones: frames of the queue, ``gpus_now`` and
    ``manager_nodes``, in sentences. Pure."""
    gpus_now: list[GpusNowRecord] = known_records(gpus)
    own: list[ManagerNodesRecord] = known_records(nodes)
    unused = waiting.unused(gpus_now)
    return (*(() if unused is None else (unused,)), *waiting.kept(_rows(queue), gpus_now, own))


def _rows(queue: pd.DataFrame) -> "list[ManagerQueueRecord]":
    return known_records(queue)


def _facts(part: pd.DataFrame) -> None:
    by_cause = part.groupby("cause", dropna=False)["tasks"].sum()
    free = int(by_cause.get("resources", 0))
    now = pd.Timestamp(acting.now())
    items = [("wait until GPUs are free", _jobs(free))]
    for cause, count in by_cause.sort_values(ascending=False).items():
        if cause != "resources" and not text.missing(cause):
            items.append((f"wait for {waiting.CAUSES.get(str(cause), str(cause))}", _jobs(int(count))))
    longest = part[part["cause"] == "resources"]["submitted_at"].min()
    if not text.missing(longest):
        items.append(("the longest of the first has waited", text.length((now - longest).total_seconds())))
    facts(items)


def _table(stage: Stage, cluster: str, queue: pd.DataFrame) -> None:
    view = stage.view
    frame = matching(queue, view.find, user=view.user, project=view.project)
    if frame.empty:
        st.caption("No job that waits there matches what was chosen above.")
        return
    pages = -(-len(frame) // PER_PAGE)
    at = st.pagination(pages, key=f"managed-page-{cluster}") - 1 if pages > 1 else 0
    part = frame.iloc[at * PER_PAGE : (at + 1) * PER_PAGE]
    picked = grid(
        _shown(stage, part)[list(COLUMNS)],
        hide_index=True,
        height=38 + 35 * min(len(part), 20),
        column_config=_columns(),
        placeholder=text.NOTHING,
        on_select="rerun",
        selection_mode="single-row",
        key=f"managed-table-{cluster}-{at}",
        alt=f"The jobs that wait at {_manager(frame)}, cluster {cluster}, in its order",
    )
    st.caption(
        f"{_jobs(int(frame['tasks'].sum()))}, in its order. An expected start is {_manager(frame)}'s, and "
        "moves with each job that comes, ends or is put before it; most have none. Choose a row to look into "
        "a job."
    )
    if chosen := picked["selection"]["rows"]:
        job = str(part.iloc[chosen[0]]["job"])
        st.switch_page(stage.site["jobs"], query_params=address(shared(view)) | {"job": job})


def _shown(stage: Stage, part: pd.DataFrame) -> pd.DataFrame:
    now, rows = pd.Timestamp(acting.now()), _rows(part)
    return part.assign(
        shown=[row["shown_id"] for row in rows],
        where=[" ".join(filter(None, (row["partition"], row["qos"]))) for row in rows],
        asked=[asked(row) for row in rows],
        waited=[text.length_cell((now - at).total_seconds()) for at in part["submitted_at"]],
        why=[waiting.why_of(row) for row in rows],
        expected=part["expected_at"].dt.tz_convert(stage.zone),
    )


def asked(row: "ManagerQueueRecord") -> str:
    """What each of its tasks asks for, of a row of ``manager_queue``."""
    each = text.NOTHING if row["gpus"] is None else text.count(row["gpus"])
    kind = f" {row['gpu_type']}" if row["gpu_type"] else ""
    many = f"{text.count(row['tasks'])} x " if row["tasks"] > 1 else ""
    shards = f" {text.many(row['shards'], 'shard')}" if row["shards"] else ""
    return f"{many}{each}{kind}" if row["gpus"] or not shards else f"{many}{shards.strip()}"


def _columns() -> "dict[str, ColumnConfig | str]":
    configured: dict[str, ColumnConfig | str] = {**COLUMNS}
    configured["why"] = st.column_config.TextColumn("Why", width="large")
    configured["expected"] = st.column_config.DatetimeColumn("Expected start", format="D MMM HH:mm")
    return configured


def _jobs(many: int) -> str:
    return text.many(many, "job")
