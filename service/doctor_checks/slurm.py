"""What ``fallow doctor`` says of Slurm: whether it can be asked, and what this account does not see of it."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from analytics import text
from analytics.text import many
from service.doctor_checks.results import Finding, Verdict

if TYPE_CHECKING:
    from collector.managers.model import Look
    from collector.managers.slurm.controller import Controller, Reach
    from collector.model import Unavailable
    from service.config.model import Config
    from service.schemas.rows import ManagerNodesRow

NAMES = {"slurm": "Slurm", "kubernetes": "Kubernetes", "ray": "Ray"}
MOST_NAMES = 8
"""Of nodes, in one sentence."""


def slurm(config: "Config") -> Finding:
    """Whether Slurm can be asked who holds what."""
    if not config.collect.slurm:
        return Finding(subject="Slurm", verdict=Verdict.ABSENT, found="switched off by collect.slurm")
    from collector.clock import SystemClock
    from collector.inventory.slurm_programs import is_a_site
    from collector.managers.slurm.reader import SlurmManager

    if shutil.which("squeue") is not None and not is_a_site():
        return Finding(
            subject="Slurm",
            verdict=Verdict.ABSENT,
            found="its programs are here, and know of no cluster",
            advice="nothing to do without Slurm; with it, set SLURM_CONF or put slurm.conf into /etc/slurm",
        )
    if shutil.which("squeue") is None:
        return Finding(
            subject="Slurm",
            verdict=Verdict.ABSENT,
            found="squeue is not on the PATH",
            advice="nothing to do without Slurm; with it, install its client tools",
        )
    return slurm_finding(SlurmManager().look(SystemClock().now_ms()))


def slurm_finding(look: "Look | Unavailable") -> Finding:
    """What a look at Slurm showed, and what it could not."""
    from collector.managers.model import HOLDING, JobState
    from collector.model import OutOfService, Unavailable

    if isinstance(look, Unavailable):
        advice = "see that squeue works for this user, or set slurm = false under [collect]"
        return Finding(subject="Slurm", verdict=Verdict.LIMITED, found=look.reason, advice=advice)
    allocated = sum(grant.gpus for job in look.jobs for grant in job.given or () if not grant.is_shared)
    runs = sum(job.state in HOLDING for job in look.jobs)
    waits = sum(job.tasks for job in look.jobs if job.state is JobState.PENDING)
    gpus = sum(node.gpus or 0 for node in look.nodes)
    sentence = (
        f"cluster {look.cluster}: {many(len(look.nodes), 'node')}, {allocated} of {gpus} GPUs given out, "
        f"{many(runs, 'job')} {'runs' if runs == 1 else 'run'}, {waits} {'waits' if waits == 1 else 'wait'}"
    )
    doubted = [node for node in look.nodes if node.state is OutOfService.UNASKED]
    if doubted:
        names = _named([node.name for node in doubted])
        return Finding(
            subject="Slurm",
            verdict=Verdict.LIMITED,
            found=(
                f"{sentence}; on {many(len(doubted), 'node')} ({names}) more is given out than its jobs show"
            ),
            advice="give this account AdminLevel=Operator (sacctmgr), or run the service as SlurmUser; "
            "where it sees all and that lasts, slurmctld miscounts since a crash: `scontrol reconfigure`",
        )
    return Finding(subject="Slurm", verdict=Verdict.GOOD, found=sentence)


def engine(config: "Config") -> Iterator[Finding]:
    """What could be done to Slurm's jobs from here; nothing where no Slurm is asked. Blocks."""
    from collector.inventory.slurm_programs import NoAnswer, answer, is_a_site
    from collector.managers.slurm.controller import COMMAND, controller_of, reach_of

    if not config.collect.slurm or not is_a_site():
        return
    try:
        controller = controller_of(answer(COMMAND))
        yield engine_finding(controller, reach_of(controller, answer))
    except NoAnswer as failure:
        yield Finding(
            subject="Slurm's jobs", verdict=Verdict.LIMITED, found=f"nothing can be done: {failure}"
        )


def engine_finding(controller: "Controller", reach: "Reach") -> Finding:
    """What its controller and this account's rights mean for acting. Pure."""
    from collector.managers.slurm.controller import SAVED, Reach

    save = "" if controller.kill_wait_s is None else f", {text.length(controller.kill_wait_s)} to save itself"
    again = text.length(controller.requeue_rest_s)
    sentence = (
        f"pause by requeuehold{save}; resume by release, {again} after that at the earliest; "
        "start, move, resize and end are Slurm's and owners' own"
    )
    if not controller.holds_saved:
        sentence += f"; a job that ends with {SAVED} by itself is not held (RequeueExitHold={SAVED})"
    if reach is Reach.ALL:
        whose = "of everybody who allows it"
        return Finding(subject="Slurm's jobs", verdict=Verdict.GOOD, found=f"those {whose}: {sentence}")
    return Finding(
        subject="Slurm's jobs",
        verdict=Verdict.LIMITED,
        found=f"this account's own alone: {sentence}",
        advice="`sacctmgr modify user NAME set AdminLevel=Operator` lets it act on those of all who allow it",
    )


def nodes(data: Path) -> Iterator[Finding]:
    """Nodes with GPUs of which the store has no measurements; nothing where it knows of no such manager."""
    from service.client import ClientError, connect

    try:
        with connect(data) as client:
            rows = client.rows("manager_nodes")
    except ClientError:  # no store yet, or one that another finding speaks of
        return
    for manager in dict.fromkeys(row["manager"] for row in rows):
        yield nodes_finding([row for row in rows if row["manager"] == manager])


def nodes_finding(rows: "list[ManagerNodesRow]") -> Finding:
    """Whether each node that gives out GPUs is measured; ``rows`` are those of ``manager_nodes``."""
    nodes_with_gpus = [row for row in rows if row["gpus"]]
    subject = f"{NAMES.get(rows[0].get('manager', 'slurm'), 'Slurm') if rows else 'Slurm'} nodes"
    unseen = [row["node"] for row in nodes_with_gpus if not row["measured_gpus"]]
    fewer = [row["node"] for row in nodes_with_gpus if 0 < row["measured_gpus"] < (row["gpus"] or 0)]
    if not unseen and not fewer:
        sentence = f"measured is {many(len(nodes_with_gpus), 'node')} of {len(nodes_with_gpus)} with GPUs"
        return Finding(subject=subject, verdict=Verdict.GOOD, found=sentence)
    sentences = [
        f"{len(names)} of {many(len(nodes_with_gpus), 'node')} with GPUs {what}: {_named(names)}"
        for names, what in ((unseen, "measured by nobody here"), (fewer, "measured in part"))
        if names
    ]
    return Finding(
        subject=subject,
        verdict=Verdict.LIMITED,
        found="; ".join(sentences),
        advice="give their exporters to --source dcgm=URL,URL; a node's name and its exporter's Hostname "
        "label match whole or up to the first dot",
    )


def _named(names: list[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
