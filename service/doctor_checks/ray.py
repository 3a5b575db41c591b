"""What ``fallow doctor`` says of a Ray cluster: whether its dashboard tells, and what it leaves open."""

from typing import TYPE_CHECKING

from analytics.text import many
from service.doctor_checks.results import Finding, Verdict

if TYPE_CHECKING:
    from collector.managers.model import Look
    from collector.model import Unavailable
    from service.config.model import Config


def ray(config: "Config") -> Finding:
    """Whether the cluster that is configured tells who holds what. Blocks for as long as it takes."""
    from collector.clock import SystemClock
    from service.sources.making import SourceRefused, ray_manager

    try:
        manager = ray_manager(config)
    except SourceRefused as error:
        return Finding(subject="Ray", verdict=Verdict.LIMITED, found=str(error))
    return ray_finding(manager.look(SystemClock().now_ms()), says_who=bool(config.collect.ray_user_key))


def ray_finding(look: "Look | Unavailable", *, says_who: bool) -> Finding:
    """What a look at it showed, and what it could not. Pure."""
    from collector.managers.model import JobState
    from collector.model import OutOfService, Unavailable

    if isinstance(look, Unavailable):
        advice = "see that this machine reaches Ray's dashboard, or set ray to nothing under [collect]"
        return Finding(subject="Ray", verdict=Verdict.LIMITED, found=look.reason, advice=advice)
    given = sum(node.given_gpus or 0 for node in look.nodes)
    gpus = sum(node.gpus or 0 for node in look.nodes)
    runs = sum(job.state is JobState.RUNNING for job in look.jobs)
    waits = sum(job.tasks for job in look.jobs if job.state is JobState.PENDING)
    sentence = (
        f"cluster {look.cluster}: {many(len(look.nodes), 'node')} with GPUs, {given} of {gpus} GPUs given "
        f"out to {many(runs, 'job')}, {waits} {'waits' if waits == 1 else 'wait'}"
    )
    doubted = [node for node in look.nodes if node.state is OutOfService.UNASKED]
    if doubted:
        return Finding(
            subject="Ray",
            verdict=Verdict.LIMITED,
            found=f"{sentence}. {doubted[0].name}: {doubted[0].reason}",
        )
    if not says_who:
        sentence += "; whose jobs they are Ray doesn't know (collect.ray_user_key)"
    return Finding(subject="Ray", verdict=Verdict.GOOD, found=sentence)
