"""What is made of a launcher's report: what it claims, whether that is proven, and whether it fits.

The caller has the register's guard; nothing is changed here but what is known of numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from advisor.jobs import claims
from advisor.jobs.claims import Claim, Proven, Unproven
from advisor.jobs.command_numbers import Numbers
from advisor.jobs.leased_gpus import Devices
from advisor.jobs.model import JobRecord, Report
from advisor.jobs.signing import CommandSigner, placed_ms
from collector.model import JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """A report as it is taken: ``after`` it, its entry.

    ``displaced`` are entries, before and after, whose leases it proves to be over.
    """

    after: JobRecord
    claim: Claim | None
    displaced: tuple[tuple[JobRecord, JobRecord], ...] = ()


class Reviewer:
    """Reviews the reports of one register."""

    def __init__(self, signer: CommandSigner, numbers: Numbers, devices: Devices) -> None:
        self._signer, self._numbers, self._devices = signer, numbers, devices

    def review(
        self, before: JobRecord, report: Report, entries: Mapping[JobId, JobRecord], now_ms: int
    ) -> Reviewed:
        """What the report makes of its entry, among the others.

        A claim to GPUs that others hold is believed where each of those leases is older: the service gave the
        whole GPU away after it, and only a restored backup does not know. What is younger stays.
        """
        proof = self._signer.read(before, report.proof) if report.proof else None
        self._numbers.hear(before.id, report.acknowledged)
        if proof is not None:
            self._numbers.prove(proof.number)
        claim = claims.claim_of(before, report, proof, self._numbers.reissued(before.id))
        report = replace(report, proof="")  # it has served, and would only make the entry longer
        after = claims.apply_claim(before, report, claim, now_ms)
        rivals = {job for jobs in self._devices.in_the_way(before, after).values() for job in jobs}
        if not rivals or not isinstance(claim, Proven):
            return Reviewed(after=after, claim=claim)
        newest_ms = max(placed_ms(entries[job]) for job in rivals)
        if claim.share < 1 or newest_ms >= claim.proof.given_ms:
            names = ", ".join(sorted(rivals))
            why = f"it shows a lease of {', '.join(report.gpus)}, which {names} holds by a newer one"
            refused = Unproven(why=why, is_ahead=True)
            after = claims.apply_claim(before, report, refused, now_ms)
            return Reviewed(after=after, claim=refused)
        why = f"its GPUs were given to {before.id} after the backup that was put back"
        displaced = tuple((entries[job], claims.displaced(entries[job], why, now_ms)) for job in rivals)
        return Reviewed(after=after, claim=claim, displaced=displaced)
