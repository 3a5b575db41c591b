"""Slurm's own word on who holds which GPU, by asking ``squeue --json`` for the running jobs.

The controller answers for the whole cluster, so one Fallow asks for all nodes; indices become UUIDs in
``collector.attribution``, where the nodes' GPUs are known. Slurm 25.11 puts UUIDs into CUDA_VISIBLE_DEVICES,
but squeue and SLURM_JOB_GPUS still count indices.
"""

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence

from collector.inventory.sinfo import node_states
from collector.inventory.slurm_programs import TIMEOUT_S
from collector.inventory.slurm_rights import hidden_jobs
from collector.inventory.squeue import HOLDING_STATES, NotAnswered, NotSqueue, claims
from collector.model import NodeState, Reading, Unavailable

COMMAND = ("squeue", "--json", "--all", "--states=" + ",".join(sorted(HOLDING_STATES)))


RIGHTS_MS = 600_000
"""How often it is asked whether this account sees all jobs: the answer changes with Slurm's configuration."""


class SlurmSource:
    """Node claims of all running jobs. ``command`` is what to run, for sites that wrap squeue.

    ``hidden`` says why other people's jobs may be missing from the list, ``nodes`` which nodes there are.
    """

    name = "slurm"

    def __init__(
        self,
        command: Sequence[str] = COMMAND,
        *,
        timeout_s: float = TIMEOUT_S,
        hidden: Callable[[], str | None] = hidden_jobs,
        nodes: Callable[[], tuple[NodeState, ...] | None] = node_states,
    ) -> None:
        self._command = tuple(command)
        self._timeout_s = timeout_s
        self._hidden = hidden
        self._nodes = nodes
        self._rights: tuple[int, str | None] | None = None

    def read(self, now_ms: int) -> Reading | Unavailable:
        """Blocks up to the timeout; an old or absent squeue, or a silent controller, is Unavailable."""
        try:
            found = claims(json.loads(self._ask().decode("utf-8", "replace")))
        except NotAnswered as answer:
            reason = f"{self._command[0]} has no answer from Slurm ({answer}); is slurmctld up, and munge?"
            return Unavailable(source=self.name, at_ms=now_ms, reason=reason)
        except _Failed as failure:
            return Unavailable(source=self.name, at_ms=now_ms, reason=str(failure))
        except (NotSqueue, json.JSONDecodeError) as error:
            reason = f"{self._command[0]} did not print jobs as JSON ({error}); Slurm 21.08 or later does"
            return Unavailable(source=self.name, at_ms=now_ms, reason=reason)
        partial = self._why_partial(now_ms)
        if partial is not None:
            return Unavailable(source=self.name, at_ms=now_ms, reason=partial)
        return Reading(source=self.name, at_ms=now_ms, claims=found, nodes=self._nodes())

    def _why_partial(self, now_ms: int) -> str | None:
        known = self._rights
        if known is None or not 0 <= now_ms - known[0] < RIGHTS_MS:
            known = self._rights = (now_ms, self._hidden())
        return known[1]

    def close(self) -> None:
        """Nothing is held between two reads."""

    def _ask(self) -> bytes:
        program = self._command[0]
        if shutil.which(program) is None:
            raise _Failed(f"{program} is not on the PATH: no Slurm here, or install its client tools")
        try:
            done = subprocess.run(
                self._command,
                capture_output=True,
                timeout=self._timeout_s,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise _Failed(f"{program} gave no answer in {self._timeout_s:g} s; is slurmctld up?") from None
        except OSError as error:
            raise _Failed(f"{program} could not be run: {error.strerror}") from error
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise _Failed(
                f"{program} ended with {done.returncode}: {said[-1][:200] if said else 'no message'}"
            )
        return done.stdout


class _Failed(Exception):
    """squeue could not be asked; the text says why and what to do."""
