"""Jobs of which a part is not known: what is said of their idle GPUs says which part, and since when. Pure.

A job is one thing over all its GPUs. Where one of them is silent or cannot be judged, nobody knows that the
job rests, though others of its GPUs do.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from analytics import text
from analytics.findings.judge import RESTS
from analytics.findings.lost import error_of, with_losses
from analytics.findings.words import FREED_BY, IN_USE, by_place, gpu_names, listed
from analytics.model import Evidence, Finding, FindingKind, GpuPast, Verdict
from analytics.vocabulary.findings import LOST_GPU, UNKNOWN_GPUS, WASTE_REASONS
from collector.model import GpuUuid, JobId

GIVES_BACK = frozenset(WASTE_REASONS) | {FindingKind.RESERVED_BY_DESIGN}
"""The kinds of which the job's end, or a scale to zero, is a remedy."""


def with_unknown_parts(
    pasts: Sequence[GpuPast], verdicts: Sequence[Verdict], findings: Sequence[Finding]
) -> tuple[Finding, ...]:
    """``findings`` with the GPUs of their job named that it lost, and those of which nothing is known."""
    findings = with_losses(pasts, verdicts, findings)
    unknown = _unknown(pasts, verdicts)
    if not unknown:
        return findings
    fallen = {
        each.uuid for verdict in verdicts for each in verdict.findings if each.kind is FindingKind.FALLING_GPU
    }
    return tuple(_told(finding, unknown, fallen) for finding in findings)


def _unknown(
    pasts: Sequence[GpuPast], verdicts: Sequence[Verdict]
) -> Mapping[JobId, list[tuple[GpuPast, str]]]:
    """By job: its GPUs of which it is not known what it does there, and why, in words."""
    began: dict[JobId, int] = {}
    for past in pasts:
        for claim in past.claims:
            job = claim.holder.job
            began[job] = min(claim.from_ms, began.get(job, claim.from_ms))
    unknown: defaultdict[JobId, list[tuple[GpuPast, str]]] = defaultdict(list)
    for past, verdict in sorted(zip(pasts, verdicts, strict=True), key=lambda each: by_place(each[0])):
        reason = next((each.reason for each in verdict.unknown if RESTS & set(each.kinds)), None)
        if reason is None:
            continue
        resting = {e.holder.job for e in verdict.findings if e.holder is not None and e.kind in RESTS}
        jobs = {claim.holder.job for claim in past.claims}
        if past.newest_ms is not None:  # held when it was seen last, in the run that goes on
            jobs |= {
                claim.holder.job
                for claim in past.last_claims
                if began.get(claim.holder.job, past.newest_ms + 1) <= past.newest_ms
            }
        for job in jobs - resting:
            unknown[job].append((past, _why(past, verdict, reason)))
    return unknown


def _why(past: GpuPast, verdict: Verdict, reason: str) -> str:
    """Since when a GPU is silent, as a time, which doesn't change each minute; else why it is not judged."""
    if not any(set(each.kinds) == set(FindingKind) for each in verdict.unknown):
        return reason
    if past.newest_ms is None:
        return "never measured"
    error = error_of(past)
    return f"not seen since {text.clock(past.newest_ms)}{f'; {error}' if error else ''}"


def _told(
    finding: Finding,
    unknown: Mapping[JobId, Sequence[tuple[GpuPast, str]]],
    fallen: set[GpuUuid],
) -> Finding:
    if finding.kind not in GIVES_BACK or finding.holder is None:
        return finding
    is_lost = any(each.name == LOST_GPU for each in finding.evidence)  # said of it already
    parts = [
        (past, why)
        for past, why in unknown.get(finding.holder.job, ())
        if not (is_lost and past.uuid in fallen)
    ]
    if not parts:
        return finding
    names = _names(parts)
    return replace(
        finding,
        sentence=_doubted(finding.sentence, f"What it does on {names} is not known: the job may be at work."),
        evidence=(*finding.evidence, Evidence(name=UNKNOWN_GPUS, value=names)),
    )


def _doubted(sentence: str, doubt: str) -> str:
    """The doubt before what is to be done about it, where the sentence says that."""
    for begins in (IN_USE, FREED_BY):
        found, begin, remedy = sentence.partition(begins)
        if begin:
            return f"{found}{doubt} {begin}{remedy}"
    return f"{sentence} {doubt}"


def _names(parts: Sequence[tuple[GpuPast, str]]) -> str:
    """ "GPU 0 and 1 of e (not seen since 2026-11-03 14:05 UTC)", each node and reason by itself."""
    groups = groupby(parts, key=lambda each: (each[0].node, each[1]))
    return listed([f"{gpu_names([past for past, _ in group])} ({why})" for (_, why), group in groups])
