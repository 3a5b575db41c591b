"""Whether a report says more than the register knows, and whether the service's own word bears it out. Pure.

A register from an older backup stands under launchers that went on: what they carried out since is *ahead*
of it. A launcher that shows the service's own command (``signing``) is believed, as far as that command goes;
any other is only told of: nobody takes a GPU, or lifts a number, by a word of their own.

    nothing beyond the register ─► None      ahead, and it shows by which command ─► Proven
    its order was given twice   ─► Void      ahead without that, or on GPUs that it was not given ─► Unproven
"""

from dataclasses import dataclass, replace
from typing import assert_never

from advisor.jobs.lifecycle import (
    attained_gpu_s,
    in_flight,
    leased,
    newest_number,
    with_report,
    with_sign_of_life,
)
from advisor.jobs.model import Elasticity, JobRecord, JobState, Report
from advisor.jobs.signing import LEAVING, PLACING, CommandProof
from collector.model import GpuUuid

HOLDING = (JobState.STARTING, JobState.RUNNING)
UNDONE = "an older backup was put back, and its launcher knew that number already; order it again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """Its launcher stands where the report says, by this command; ``share`` of each GPU that it holds."""

    proof: CommandProof
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Void:
    """The order in flight bears a number that its launcher knows from before a restore: it is not obeyed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unproven:
    """It claims what this service has not given it; ``why`` is for people. ``is_ahead``: no part is taken."""

    why: str
    is_ahead: bool


Claim = Proven | Void | Unproven


def claim_of(
    entry: JobRecord, report: Report, proof: CommandProof | None = None, again: int | None = None
) -> Claim | None:
    """What the report claims beyond the register. ``proof``: what it shows, checked to be the service's word.

    ``again``: the number of an order that its launcher, which shows no proofs, took for an earlier one.
    """
    if entry.state is JobState.ENDED or report.exit_reason is not None:
        return None
    # A proof of another order says nothing of where this one left the job.
    proof = proof if proof is not None and proof.number == report.acknowledged else None
    command = entry.directive
    answers = in_flight(entry) and command is not None and command.number == report.acknowledged
    if answers and proof is None and again == report.acknowledged:
        return Void()
    is_other = answers and proof is not None and command is not None and report.proof != command.proof
    if is_other or report.acknowledged > newest_number(entry):
        return _ahead(entry, report, proof)
    strange = [uuid for uuid in report.gpus if uuid not in leased(entry)]
    if strange and report.state in HOLDING:
        return Unproven(
            why=f"it says that it runs on {', '.join(strange)}, which it was not given", is_ahead=False
        )
    return None


def apply_claim(entry: JobRecord, report: Report, claim: Claim | None, now_ms: int) -> JobRecord:
    """The entry after its launcher's word, with what of the claim is believed.

    What was asked of it since the backup was put back is undone, and told as failed. Whether it was its owner
    who had it paused is not known any more: it waits for its turn.
    """
    match claim:
        case None:
            return with_report(entry, report, now_ms)
        case Proven():
            return _caught_up(with_sign_of_life(entry, report, now_ms), report, claim, now_ms)
        case Void():
            return with_report(entry, replace(report, failed=UNDONE), now_ms)
        case Unproven(is_ahead=True):
            return with_sign_of_life(entry, report, now_ms)
        case Unproven():
            return with_report(entry, report, now_ms)
        case _:
            assert_never(claim)


def displaced(entry: JobRecord, why: str, now_ms: int) -> JobRecord:
    """An entry whose GPUs were given to somebody else since: it holds none until its launcher proves where it
    stands, or it is given some."""
    emptied = replace(entry, attained_gpu_s=attained_gpu_s(entry, now_ms), counted_ms=None, gpus=())
    return replace(
        emptied,
        state=JobState.PENDING if entry.submission.mobility is Elasticity.RIGID else JobState.PAUSED,
        share=entry.submission.share,
        paused_on=entry.gpus,
        started_ms=None,
        leased_ms=None,
        placed_ms=None,
        message=why,
    )


def _caught_up(entry: JobRecord, report: Report, claim: Proven, now_ms: int) -> JobRecord:
    holds = bool(report.gpus)
    return replace(
        entry,
        state=report.state,
        gpus=report.gpus,
        share=claim.share if holds else entry.submission.share,
        acknowledged=report.acknowledged,
        failed=UNDONE if in_flight(entry) else None,
        attained_gpu_s=attained_gpu_s(entry, now_ms),
        counted_ms=now_ms if holds else None,
        leased_ms=(entry.leased_ms or entry.submitted_ms) if holds else None,
        placed_ms=claim.proof.given_ms if holds else None,
        started_ms=(entry.started_ms or now_ms) if holds else None,
        paused_on=entry.gpus if report.state is JobState.PAUSED else (),
        promised_ms=None,
        promised_gpus=(),
        held_by_user=False,
        message="",
    )


def _ahead(entry: JobRecord, report: Report, proof: CommandProof | None) -> Claim:
    # A number without a proof lifts nothing: one report of 2^53 once ended all acting (docs/decisions/0037).
    if proof is None:
        on = f" and runs on {', '.join(report.gpus)}" if report.gpus else ""
        return Unproven(
            why=f"it says that it carried out order {report.acknowledged}{on}, and cannot show that order",
            is_ahead=True,
        )
    holds = report.state in HOLDING
    allowed, share = _lease_after(proof, failed=report.failed is not None)
    strange = [uuid for uuid in report.gpus if uuid not in allowed]
    count, submission = len(report.gpus), entry.submission
    can_be = submission.min_gpus <= count <= submission.max_gpus if holds else count == 0
    if strange or len(set(report.gpus)) != count or not can_be:
        where = ", ".join(strange or report.gpus) or "no GPU"
        why = f"it says that it is {report.state.value} on {where}, and order {proof.number} says otherwise"
        return Unproven(why=why, is_ahead=True)
    return Proven(proof=proof, share=share)


def _lease_after(proof: CommandProof, *, failed: bool) -> tuple[tuple[GpuUuid, ...], float]:
    """What a job can hold once it has carried the command out, or has not managed to."""
    if not failed:
        return proof.gpus, proof.share
    if proof.kind in LEAVING.values():
        return proof.held, proof.held_share
    if proof.kind in PLACING.values() and proof.held:  # a resize that broke off may have got some of them
        return (*proof.held, *(uuid for uuid in proof.gpus if uuid not in proof.held)), proof.held_share
    return ((), 1.0) if proof.kind in PLACING.values() else (proof.gpus, proof.share)
