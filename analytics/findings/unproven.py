"""Claims of launchers to GPUs that Fallow never gave them: told, and held against nobody else.

They say nothing of what the GPU does, and nobody's holding is judged differently for them.
"""

from collections import defaultdict
from collections.abc import Sequence

from analytics.findings.words import by_place, gpu_names
from analytics.model import Evidence, Finding, FindingKind, GpuPast, UnprovenClaim

LASTS_S = 600
"""A launcher reports every few seconds: what it has not said again for ten minutes, it says no more."""


def unproven_claims(pasts: Sequence[GpuPast]) -> tuple[Finding, ...]:
    """What is claimed now without a proof: one finding a person who claims, on however many GPUs.

    It stands at one of the GPUs, one at each GPU at most, and names no holder: whose GPU it is has
    no part in it. Where there are more claimers than GPUs, the last ones share a finding.
    """
    claimed: defaultdict[str, list[tuple[GpuPast, UnprovenClaim]]] = defaultdict(list)
    for past in sorted(pasts, key=by_place):
        for claim in past.unproven:
            claimed[claim.user].append((past, claim))
    placed: dict[str, list[tuple[GpuPast, UnprovenClaim]]] = {}
    for user in sorted(claimed, key=lambda user: (min(each.from_ms for _, each in claimed[user]), user)):
        gpus = [past.uuid for past, _ in claimed[user]]
        at = next((uuid for uuid in gpus if uuid not in placed), gpus[0])
        placed.setdefault(at, []).extend(claimed[user])
    return tuple(_finding(at, claims) for at, claims in placed.items())


def _finding(at: str, claims: Sequence[tuple[GpuPast, UnprovenClaim]]) -> Finding:
    past = next(each for each, _ in claims if each.uuid == at)
    first = min((claim for _, claim in claims), key=lambda claim: claim.from_ms)
    gpus = list({each.uuid: each for each, _ in claims}.values())
    jobs = list(dict.fromkeys((claim.user, claim.job) for _, claim in claims))
    others = "" if len(jobs) == 1 else f", and {len(jobs) - 1} more" if len(jobs) > 2 else ", and one more"
    is_one = len(gpus) == 1
    return Finding(
        kind=FindingKind.UNPROVEN_CLAIM,
        uuid=past.uuid,
        node=past.node,
        gpu_index=past.gpu_index,
        holder=None,
        since_ms=first.from_ms,
        window_from_ms=first.from_ms,
        window_to_ms=max(claim.last_ms for _, claim in claims),
        coverage=1.0,
        rung=past.rung,
        wasted_gpu_hours=None,
        sentence=(
            f"{gpu_names(gpus)} {'is' if is_one else 'are'} claimed by {first.user}'s {first.job}{others}, "
            f"and {'was' if is_one else 'were'} not given to it: {first.why}. It holds nothing by that."
        ),
        evidence=(
            Evidence(name="claims", value=len(jobs)),
            Evidence(name="gpus", value=len(gpus)),
            Evidence(name="user", value=first.user),
            Evidence(name="job", value=first.job),
        ),
    )
