"""What the service told a launcher, made recognisable: a MAC (HMAC-SHA256) over each command and each lease.

A register from an older backup does not know what its launchers were told since. Only the service has the
key, so what bears its MAC was said by the service to the launcher of just this job. The MAC covers whose job
it is and when it was submitted, because numbers and nonces can come again; it does not cover settings and
reasons, by which nobody holds anything.

    proof = base64url(JSON of what was said) "." MAC in hex      a launcher keeps it and shows it, unread
"""

import base64
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from advisor.jobs.lifecycle import leased, leased_share
from advisor.jobs.model import (
    CancelCommand,
    Command,
    JobRecord,
    NotifyCommand,
    PauseCommand,
    ReallocateCommand,
    ReleaseMemoryCommand,
    RequeueCommand,
    ResumeCommand,
    StartCommand,
)
from advisor.serialize import Unreadable, from_text, to_text
from collector.model import GpuUuid

PLACING: Mapping[type[Command], str] = {
    StartCommand: "start",
    ResumeCommand: "resume",
    ReallocateCommand: "reallocate",
}
LEAVING: Mapping[type[Command], str] = {
    PauseCommand: "pause",
    RequeueCommand: "requeue",
    CancelCommand: "cancel",
}
STAYING: Mapping[type[Command], str] = {ReleaseMemoryCommand: "release-memory", NotifyCommand: "notify"}
KINDS: Mapping[type[Command], str] = {**PLACING, **LEAVING, **STAYING}
"""What a proof calls each command. Launchers that live hold proofs with these words: never change one."""
LEASE = "lease"
"""The kind of the statement how a job stands, for launchers whose commands an older Fallow gave."""
KEY_BYTES = 32
"""As long as the hash: RFC 2104, section 3, asks for no less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandProof:
    """What the service said of a job's lease by command ``number``; checked, where one was read from a proof.

    ``gpus`` is what the job holds once the command is carried out, a ``share`` of each; ``held`` is what it
    held when it was told. ``given_ms`` is when, by the service's clock.
    """

    number: int
    kind: str
    gpus: tuple[GpuUuid, ...] = ()
    share: float = 1.0
    held: tuple[GpuUuid, ...] = ()
    held_share: float = 1.0
    given_ms: int = 0


class CommandSigner:
    """Makes and checks proofs with the key of one service. Safe from any thread."""

    def __init__(self, key: bytes) -> None:
        if len(key) < KEY_BYTES:
            raise ValueError(f"a key of {len(key)} bytes: at least {KEY_BYTES} are needed")
        self._key = key

    def signed(self, entry: JobRecord, command: Command, now_ms: int) -> Command:
        """The command as it is given at ``now_ms`` to the launcher of an entry that stands so."""
        own_gpus, own_share = leased(entry), leased_share(entry)
        gpus, share = own_gpus, own_share
        if isinstance(command, StartCommand | ResumeCommand | ReallocateCommand):
            gpus, share = command.gpus, command.share
            if isinstance(command, StartCommand) and command.beside is not None:
                gpus = ()  # it is no lease
        elif type(command) in LEAVING:
            gpus = ()
        proof = CommandProof(
            number=command.number,
            kind=KINDS[type(command)],
            gpus=gpus,
            share=share,
            held=own_gpus,
            held_share=own_share,
            given_ms=now_ms,
        )
        return replace(command, proof=self.proof(entry, proof))

    def lease(self, entry: JobRecord) -> str:
        """A proof of how the entry stands since the newest command that its launcher has carried out."""
        gpus, share = leased(entry), leased_share(entry)
        proof = CommandProof(
            number=entry.acknowledged,
            kind=LEASE,
            gpus=gpus,
            share=share,
            held=gpus,
            held_share=share,
            given_ms=placed_ms(entry),
        )
        return self.proof(entry, proof)

    def proof(self, entry: JobRecord, proof: CommandProof) -> str:
        """What is said to the entry's launcher, as it can be shown again."""
        text = base64.urlsafe_b64encode(to_text(proof).encode()).decode()
        return f"{text}.{self._mac(entry, text)}"

    def read(self, entry: JobRecord, proof: str) -> CommandProof | None:
        """What this service said to the launcher of just this job; ``None`` where it never said that."""
        text, _, mac = proof.rpartition(".")
        # In constant time: how long it takes must not tell how much of a guess was right.
        if not hmac.compare_digest(self._mac(entry, text).encode(), mac.encode()):
            return None
        try:
            read_proof: CommandProof = from_text(CommandProof, base64.urlsafe_b64decode(text).decode())
        except (ValueError, Unreadable):  # a newer Fallow's: it is left unused
            return None
        return read_proof

    def _mac(self, entry: JobRecord, text: str) -> str:
        submission = entry.submission
        # One's own proof is none for another's job, nor for a job that got the same number after a restore.
        whose = (entry.id, submission.user, submission.uid, submission.nonce, entry.submitted_ms)
        signed = json.dumps(("fallow-command", whose, text)).encode()
        return hmac.digest(self._key, signed, "sha256").hex()


def placed_ms(entry: JobRecord) -> int:
    """When the command was given by which it holds its GPUs, or a moment that is known before that. Pure."""
    times = (entry.placed_ms, entry.counted_ms, entry.started_ms)
    return next((each for each in times if each is not None), entry.submitted_ms)
