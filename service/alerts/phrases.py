"""How alerts name GPUs, commands and numbers. Pure."""

import shlex
from collections.abc import Iterable, Sequence

from analytics.findings.words import measured_by
from analytics.model import Evidence, Finding, FindingKind
from collector.model import GpuUuid, JobId
from service.alerts.facts import Facts

LISTED = 4
SENTENCES = 2
"""So many findings' sentences are told; they differ in little but the GPU's name."""


def where(gpus: Iterable[GpuUuid], facts: Facts) -> str:
    """``H100 node1:3``, ``2 H100 (node1:3, node1:4)``, ``16 H100 of node1, node2``."""
    uuids = tuple(gpus)
    models = sorted({facts.state.gpus[uuid].model or "GPU" for uuid in uuids if uuid in facts.state.gpus})
    model = " or ".join(models) or "GPU"
    places = [facts.places.get(uuid, str(uuid)) for uuid in uuids]
    if len(uuids) == 1:
        return f"{model} {places[0]}"
    if len(uuids) <= LISTED:
        return f"{len(uuids)} {model} ({', '.join(places)})"
    nodes = sorted({facts.state.gpus[uuid].node for uuid in uuids if uuid in facts.state.gpus})
    return (
        f"{len(uuids)} {model} of {', '.join(nodes[:LISTED])}{' and others' if len(nodes) > LISTED else ''}"
    )


def keeping(job: JobId | str) -> str:
    """The command that has a job left alone."""
    return f"fallow keep {shlex.quote(job)} --hours 4"


def measured(facts: Facts, job: JobId, kinds: Iterable[FindingKind]) -> tuple[Evidence, ...]:
    """What the findings of these kinds about a job rest on: how much was measured, on which rung."""
    distinct = frozenset(kinds)
    findings = [each for each in facts.observed.findings_of(job) if each.kind in distinct]
    if not findings:
        return ()
    return (
        Evidence(name="measured_ratio", value=min(each.coverage for each in findings)),
        Evidence(name="measure", value=measured_by(min(each.rung for each in findings))),
    )


def told(findings: Sequence[Finding], in_all: str = "") -> str:
    """The findings' sentences, the first ones, and that there are more: "The same on 3 more GPUs."

    ``in_all`` is said of all of them together; empty: nothing is.
    """
    more = len(findings) - SENTENCES
    sentences = [each.sentence for each in findings[:SENTENCES]]
    if more > 0:
        gpus = "GPU" if more == 1 else "GPUs"
        sentences.append(f"The same on {more} more {gpus}{in_all and f', {in_all} in all'}.")
    return " ".join(sentences)
