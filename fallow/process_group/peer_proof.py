"""Who sits at the other end of each connection of a group: proved before anything else goes over it.

gloo takes whoever connects to a worker's port with a small number for the peer that it waits for; the port
and the number are no secret. So each pair of workers exchanges random challenges and answers them with the
job's secret, once, when the group has been connected. The connection that a proof came over stays the same
for the group's life, and another account of the machine can neither read nor write it: that is why nothing
that follows bears a MAC, gradients and states of gigabytes among it.

NCCL needs none of this: it lets in only who knows the id that its workers exchanged, sealed, in
``address_store``.
"""

import hmac
import os

import torch

from fallow.process_group.collectives import Group, GroupBroken
from fallow.secret import Secret

CHALLENGE_BYTES = 32
# The length of a SHA-256 digest.
PROOF_BYTES = 32

Rank = int


def prove(group: Group, secret: Secret, name: str) -> None:
    """Make sure that every other rank of ``group``, called ``name``, knows ``secret``. Blocks.

    Raises GroupBroken, which names the rank that doesn't, or when one hangs up or says nothing.
    """
    others = [rank for rank in range(group.world_size) if rank != group.rank]
    key = secret.derive("peer")
    ours = {rank: os.urandom(CHALLENGE_BYTES) for rank in others}
    theirs = _exchanged(group, ours, CHALLENGE_BYTES)

    def proof(by: Rank, to: Rank, challenge: bytes, answer_to: bytes) -> bytes:
        return hmac.digest(key, f"{name} {by} {to} ".encode() + challenge + answer_to, "sha256")

    own_proofs = {rank: proof(group.rank, rank, ours[rank], theirs[rank]) for rank in others}
    peer_proofs = _exchanged(group, own_proofs, PROOF_BYTES)
    for rank in others:
        if not hmac.compare_digest(peer_proofs[rank], proof(rank, group.rank, theirs[rank], ours[rank])):
            raise GroupBroken(
                f"who connected as rank {rank} does not know the job's secret; another account on this "
                "machine may have taken its place"
            )


def _exchanged(group: Group, words: dict[Rank, bytes], count: int) -> dict[Rank, bytes]:
    """What the others sent, each ``count`` bytes, while ``words`` went to them."""
    sends = [(torch.frombuffer(bytearray(text), dtype=torch.uint8), rank) for rank, text in words.items()]
    receives = [(torch.zeros(count, dtype=torch.uint8), rank) for rank in words]
    group.start_exchange(sends, receives).wait()
    return {rank: bytes(tensor.tolist()) for tensor, rank in receives}
