"""Jobs that wait because a GPU of theirs was lost: what is said of the others names it. Pure.

A process that loses its GPU dies or is stuck, and the others of a training wait for it until their
library gives up, if ever. Such a job holds idle GPUs and is not to blame.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from analytics import text
from analytics.findings.words import gpu_name
from analytics.model import IDLENESS, Claim, Evidence, Finding, FindingKind, GpuPast, Verdict
from analytics.vocabulary.findings import LOST_ERROR, LOST_GPU
from collector.model import JobId

MINUTE_MS = 60_000
BEFORE_MS = 10 * MINUTE_MS
"""The work on a GPU may end before its driver tells why, and minutes are what it is known by."""
AFTER_MS = 60 * MINUTE_MS
"""Collectives give up after 10 min (PyTorch's NCCL default) or 30 (Gloo's, and NCCL's until PyTorch 2.2);
who works on for longer than twice that does without the GPU."""
FALLING_MS = 10 * MINUTE_MS
"""An XID so long before a GPU's last sample is of its fall; ``assess_gpus`` has the same for XID 79."""
WAITS = IDLENESS | {FindingKind.USES_PART, FindingKind.MAY_HANG}
"""The kinds that say that GPUs of a job do nothing now, or nothing but wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loss:
    """A GPU that a job lost: which one, when, and what failed (``None``: it is silent, nobody says why)."""

    past: GpuPast
    at_ms: int
    error: str | None


def error_of(past: GpuPast) -> str | None:
    """What its driver told about when it was last seen: "XID 48: double-bit ECC error"; ``None``: nothing."""
    seen_ms = past.newest_ms if past.newest_ms is not None else past.lost_ms
    errors = []
    if past.xid is not None and past.xid_ms is not None and past.xid_ms >= (seen_ms or 0) - FALLING_MS:
        errors.append(f"XID {past.xid}")
    if past.ecc_errors:
        errors.append(text.many(past.ecc_errors, "uncorrected memory error"))
    return ", ".join(errors) or None


def with_node_errors(pasts: Sequence[GpuPast], verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """``verdicts``; what is unknown of GPUs of a node that is silent as a whole names its others' errors."""
    errors: defaultdict[str, list[str]] = defaultdict(list)
    for past in pasts:
        told = error_of(past) if past.siblings_fresh is False else None
        if told is not None:
            errors[past.node].append(f"{gpu_name(past)} told {told}")
    return tuple(
        _doubted(verdict, errors[past.node])
        if past.siblings_fresh is False and error_of(past) is None and past.node in errors
        else verdict
        for past, verdict in zip(pasts, verdicts, strict=True)
    )


def _doubted(verdict: Verdict, told: Sequence[str]) -> Verdict:
    more = f" and {len(told) - 1} more an error" if len(told) > 1 else ""
    unknown = tuple(
        replace(each, reason=f"{each.reason}, as its node's are; {told[0]}{more} before")
        for each in verdict.unknown
    )
    return replace(verdict, unknown=unknown)


def with_losses(
    pasts: Sequence[GpuPast], verdicts: Sequence[Verdict], findings: Sequence[Finding]
) -> tuple[Finding, ...]:
    """``findings`` with the lost GPU named where a job does nothing since it lost one."""
    losses = _losses(pasts, verdicts)
    return tuple(_told(finding, losses) for finding in findings) if losses else tuple(findings)


def _losses(pasts: Sequence[GpuPast], verdicts: Sequence[Verdict]) -> Mapping[JobId, list[_Loss]]:
    losses: defaultdict[JobId, list[_Loss]] = defaultdict(list)
    for past, verdict in zip(pasts, verdicts, strict=True):
        holders = past.claims or past.last_claims
        loss = _loss_of(past, verdict, holders)
        for claim in holders if loss is not None else ():
            if loss is not None and loss.at_ms >= claim.from_ms:
                losses[claim.holder.job].append(loss)
    return losses


def _loss_of(past: GpuPast, verdict: Verdict, holders: Sequence[Claim]) -> _Loss | None:
    """Whether it is lost now, or its hardware failed under its holders; ``None``: neither."""
    fallen = next((each for each in verdict.findings if each.kind is FindingKind.FALLING_GPU), None)
    if fallen is not None:
        is_lost = past.is_off_the_bus or past.lost_ms is not None
        error = error_of(past) or (f"lost since {text.clock(fallen.since_ms)}" if is_lost else None)
        return _Loss(past=past, at_ms=fallen.since_ms, error=error)
    if past.xid is not None and past.xid_ms is not None and holders:
        return _Loss(past=past, at_ms=past.xid_ms, error=f"XID {past.xid}, told at {text.clock(past.xid_ms)}")
    return None


def _told(finding: Finding, losses: Mapping[JobId, list[_Loss]]) -> Finding:
    if finding.kind not in WAITS or finding.holder is None:
        return finding
    lost = [
        each
        for each in losses.get(finding.holder.job, ())
        if each.at_ms - BEFORE_MS <= finding.since_ms <= each.at_ms + AFTER_MS
    ]
    if not lost:
        return finding
    first = lost[0]
    name = gpu_name(first.past) + (f" and {len(lost) - 1} more" if len(lost) > 1 else "")
    if first.error is None:
        silent = text.clock(first.at_ms)
        said = f"{name} has not been seen since {silent}: if it failed, the job may wait for it."
    elif first.past.uuid == finding.uuid and finding.kind in IDLENESS:
        said = f"That GPU failed ({first.error}): its work may have died with it."
    else:
        said = f"{name} failed under it ({first.error}): it may wait for that."
    return replace(
        finding,
        sentence=f"{finding.sentence} {said}",
        evidence=(
            *finding.evidence,
            Evidence(name=LOST_GPU, value=name),
            Evidence(name=LOST_ERROR, value=first.error),
        ),
    )
