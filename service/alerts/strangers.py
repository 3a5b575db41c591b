"""What was found on GPUs that is no job's: memory left behind, processes and claims of strangers. Pure.

Operators are told. One case a machine for memory that the dead left, one a person for the other two.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from analytics import text
from analytics.model import Evidence, Finding, FindingKind
from service.alerts.facts import Facts
from service.alerts.model import WORTH_A_WORD, AlertKind, Condition, Evaluation
from service.alerts.phrases import told, where


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    finding: FindingKind
    next: str
    calm: str
    do: str


KINDS: Mapping[AlertKind, _Words] = {
    AlertKind.ZOMBIE_MEMORY: _Words(
        finding=FindingKind.ZOMBIE_MEMORY,
        next="Fallow gives these GPUs to nobody meanwhile. Look for processes in other namespaces, else "
        "reset the GPU.",
        calm="its memory is free again, or somebody holds it",
        do="fallow findings",
    ),
    AlertKind.INTRUDER: _Words(
        finding=FindingKind.INTRUDER,
        next="Fallow ends no process, and judges nobody by what it did. Talk to its owner.",
        calm="its processes are gone from GPUs of others",
        do="fallow findings --intruders",
    ),
    AlertKind.UNPROVEN_CLAIM: _Words(
        finding=FindingKind.UNPROVEN_CLAIM,
        next="It holds nothing by that. Talk to its owner; after a restored backup, start that job again.",
        calm="nothing is claimed any more",
        do="fallow findings",
    ),
}


def strangers(facts: Facts, kind: AlertKind, open_keys: Iterable[str]) -> Evaluation:
    """The cases of one of these kinds; an open one is unknown while any GPU is not judged for it."""
    words, prefix = KINDS[kind], f"{kind.value}:"
    findings: defaultdict[str, list[Finding]] = defaultdict(list)
    for each in facts.observed.analysis.findings:
        if each.kind is words.finding:
            findings[f"{prefix}{_whose(each)}"].append(each)
    holds = {key: _condition(facts, kind, key, each) for key, each in sorted(findings.items())}
    over = {key for key in open_keys if key.startswith(prefix)} - set(holds)
    if facts.unjudged(words.finding):
        return Evaluation(at_ms=facts.now_ms, holds=holds, unknown=frozenset(over))
    return Evaluation(at_ms=facts.now_ms, holds=holds, calm=dict.fromkeys(over, words.calm))


def _whose(finding: Finding) -> str:
    if finding.kind is FindingKind.ZOMBIE_MEMORY:
        return str(finding.node)
    return str(_evidence(finding, "user") or "somebody")


def _condition(facts: Facts, kind: AlertKind, key: str, findings: list[Finding]) -> Condition:
    words, who = KINDS[kind], key.partition(":")[2]
    place = where(dict.fromkeys(each.uuid for each in findings), facts)
    have = "has" if len(findings) == 1 else "have"
    titles = {
        AlertKind.ZOMBIE_MEMORY: f"{place} {have} memory that no process uses",
        AlertKind.INTRUDER: f"A process of {who} is on {place}, which others were given",
        AlertKind.UNPROVEN_CLAIM: f"{who} claims {place} without a proof",
    }
    memory = sum(int(_evidence(each, "memory_used_bytes") or 0) for each in findings)
    return Condition(
        key=key,
        kind=kind,
        level=WORTH_A_WORD,
        rung="found",
        since_ms=min(each.since_ms for each in findings),
        title=titles[kind],
        says=told(findings, text.size(memory) if memory else ""),
        next=words.next,
        do=words.do,
        evidence=findings[0].evidence
        if len(findings) == 1
        else (Evidence(name="gpus", value=len({each.uuid for each in findings})),),
        user=None if kind is AlertKind.ZOMBIE_MEMORY or who == "somebody" else who,
        node=findings[0].node,
        gpus=tuple(dict.fromkeys(each.uuid for each in findings)),
    )


def _evidence(finding: Finding, name: str) -> float | str | None:
    return next((each.value for each in finding.evidence if each.name == name), None)
