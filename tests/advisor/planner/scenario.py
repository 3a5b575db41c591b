"""Reads the stories in ``tests/scenarios``: a cluster, and round by round what must be decided.

A running job names what it runs ``on`` (GPUs, or whole nodes) and since how many minutes; a round may pass
time, end jobs, break GPUs and submit others, then lists the plan's steps in words, in order, and the rule
behind each refusal.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from advisor.actions import Action, HoldForJob, Move, Pause, Requeue, Resize, Resume, Start
from advisor.planner.limits import Lending, Limits, Mode
from advisor.planner.plan import Plan
from advisor.planner.validate import checked
from advisor.state.model import (
    ActionClass,
    ClusterState,
    Gpu,
    Job,
    Node,
    Phase,
    Placement,
    Profile,
    Project,
    Telemetry,
    Topology,
    Use,
)
from collector.model import JobKind

FOLDER = Path(__file__).parents[2] / "scenarios"
MINUTE_MS = 60_000
NOW_MS = 10_000 * MINUTE_MS
GIB = 1024**3


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round of a story; ``advised`` has consolidation say what it would do, before the decision."""

    after_min: float
    end: tuple[str, ...]
    breaks: tuple[str, ...]
    submit: tuple[Job, ...]
    advised: bool
    steps: tuple[str, ...]
    refused: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Story:
    title: str
    state: ClusterState
    limits: Limits
    rounds: tuple[Round, ...]


def read(path: Path) -> Story:
    text = tomllib.loads(path.read_text())
    gpus = dict(_hardware(text["cluster"]))
    jobs = {each["id"]: _job(each) for each in text.get("job", [])}
    places = {each["id"]: _place(each, gpus) for each in text.get("job", []) if "on" in each}
    projects = {name: Project(name=name, **rest) for name, rest in text.get("projects", {}).items()}
    state = ClusterState(
        as_of_ms=NOW_MS,
        gpus=gpus,
        nodes={gpu.node: Node(name=gpu.node) for gpu in gpus.values()},
        projects=projects,
        jobs=jobs,
        placements=places,
    )
    said = dict(text.get("limits", {}))
    if "lending" in said:
        said["lending"] = Lending(said["lending"])
    limits = Limits(modes=dict.fromkeys(ActionClass, Mode.AUTO), **said)
    return Story(
        title=text["story"], state=checked(state), limits=limits, rounds=tuple(map(_round, text["round"]))
    )


def advance(state: ClusterState, round: Round) -> ClusterState:
    """The world just before the round's decision."""
    now = state.as_of_ms + int(round.after_min * MINUTE_MS)
    jobs = {id: job for id, job in state.jobs.items() if id not in round.end}
    jobs |= {job.id: replace(job, submitted_ms=now) for job in round.submit}
    placements = {id: placed for id, placed in state.placements.items() if id not in round.end}
    broken = {uuid: replace(state.gpus[uuid], healthy=False) for uuid in round.breaks}
    gpus = {**state.gpus, **broken}
    return checked(replace(state, as_of_ms=now, jobs=jobs, placements=placements, gpus=gpus))


def words(plan: Plan) -> tuple[str, ...]:
    """The steps as a story tells them."""
    return tuple(_say(step, plan.as_of_ms) for step in plan.steps)


def _say(step: Action, now_ms: int) -> str:
    match step:
        case Start() | Resume() | Move():
            share = f" share {step.share:g}" if isinstance(step, Start) and step.share < 1 else ""
            return f"{type(step).__name__.lower()} {step.job} on {' '.join(step.gpus)}{share}"
        case Resize():
            takers = " and ".join(each for each in (step.for_job, *(id for id, _ in step.also_for)) if each)
            taker = f" for {takers}" if takers else ""
            return f"resize {step.job} to {' '.join(step.gpus)}{taker}"
        case Pause() | Requeue():
            return f"{type(step).__name__.lower()} {step.job} for {step.for_job}"
        case HoldForJob(gpus=()):
            return f"take back the promise to {step.job}"
        case HoldForJob():
            return f"promise {step.job} in {(step.start_ms - now_ms) / MINUTE_MS:g} min"
        case _:
            return repr(step)


def _hardware(text: dict[str, Any]) -> Iterator[tuple[str, Gpu]]:
    for node in range(text["nodes"]):
        for index in range(text["gpus"]):
            uuid = f"n{node}/{index}"
            yield (
                uuid,
                Gpu(
                    uuid=uuid,
                    node=f"n{node}",
                    model=text.get("models", {}).get(f"n{node}", "A100"),
                    memory_bytes=text.get("memory_gib", 80) * GIB,
                    healthy=uuid not in text.get("broken", []),
                    telemetry=Telemetry(text.get("telemetry", {}).get(uuid, "good")),
                ),
            )


def _job(text: dict[str, Any]) -> Job:
    known = {field.name for field in fields(Job)}
    given: dict[str, Any] = {key: value for key, value in text.items() if key in known}
    given.setdefault("attached", False)
    given.setdefault("preemptible", True)
    if "gpus" in text:
        given["min_gpus"] = given["max_gpus"] = text["gpus"]
    if "kind" in text:
        given["kind"] = JobKind(text["kind"])
    if "use" in text:
        given["use"] = Use(text["use"])
    if "opted_out" in text:
        given["opted_out"] = frozenset(map(ActionClass, text["opted_out"]))
    if "memory_gib" in text:
        given["memory_bytes"] = text["memory_gib"] * GIB
    if "step_s" in text:
        table = {int(n): seconds for n, seconds in text["step_s"].items()}
        given["profile"] = Profile(
            step_s=table, steps_left=text.get("steps_left"), resize_s=text.get("resize_s")
        )
    given |= {key: tuple(text[key]) for key in ("after", "after_failed") if key in text}
    if "topology" in text:
        given["topology"] = Topology(text["topology"])
    if "gpu_models" in text:
        given["gpu_models"] = tuple(text["gpu_models"])
    if "on" in text:
        given |= {"phase": Phase.RUNNING, "started_ms": NOW_MS - text.get("minutes", 60) * MINUTE_MS}
    given["submitted_ms"] = NOW_MS - text.get("waits_min", 0) * MINUTE_MS
    return Job(**given)


def _place(text: dict[str, Any], gpus: dict[str, Gpu]) -> Placement:
    own = tuple(uuid for uuid, gpu in gpus.items() if uuid in text["on"] or gpu.node in text["on"])
    return Placement(gpus=own, share=text.get("share", 1.0))


def _round(text: dict[str, Any]) -> Round:
    return Round(
        after_min=text.get("after_min", 0),
        end=tuple(text.get("end", ())),
        breaks=tuple(text.get("breaks", ())),
        submit=tuple(map(_job, text.get("submit", ()))),
        advised=text.get("advised", False),
        steps=tuple(text.get("steps", ())),
        refused=text.get("refused", {}),
    )
