"""Slurm's programs as a training's owner runs them: try, submit, find again, cancel. Each call blocks.

A job of ours is known by a random word that stands in its name and comment from its submission on, never by
its number: numbers are used again after a crash of slurmctld.
"""

import os
import secrets
import shlex
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fallow.top_ups import slurm_text
from fallow.top_ups.growth import Look
from fallow.top_ups.slurm_text import NotRead, Own, Site

TIMEOUT_S = 20.0
"""slurmctld answers within MessageTimeout, 10 s by default; more is an outage."""
NOT_INHERITED = (
    *("SLURM_", "SBATCH_", "SRUN_", "SALLOC_", "CUDA_VISIBLE_DEVICES"),
    *("FALLOW_TOKEN", "FALLOW_JOB", "FALLOW_STORE", "FALLOW_SECRET_FD"),
)
"""What the allocation around us says would be taken for the new job's own."""
INHERITED = frozenset({"SLURM_CONF"})
PATIENCE_S = 10.0
"""How long a top-up looks for its training: one that was killed must not keep GPUs."""
COMMENT = "fallow:{nonce}:of={job}"
"""Who looks at the queue sees what it is, and whose."""
LEAVE_SHARE = 0.8
"""Of KillWait: workers that have not handed over by then are killed, which the agent can still tell."""


Value = TypeVar("Value")


class NoAnswer(Exception):
    """Slurm didn't answer, or not as it does: nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopUpJob:
    """What each top-up is: the job around us, the controller's address, and what sbatch is told besides."""

    of: str
    gate: str
    token_file: Path
    python: str
    options: str = ""


class Slurm:
    """The cluster that Slurm's programs find here, for the top-ups of one training."""

    def __init__(self, job: TopUpJob, environment: Mapping[str, str] = os.environ):
        self._job = job
        self._environment = {
            name: value
            for name, value in environment.items()
            if name in INHERITED or not name.startswith(NOT_INHERITED)
        }

    def site(self) -> Site:
        """How the site is configured. Raises NoAnswer."""
        return self._read(slurm_text.site_of, self._run(["scontrol", "show", "config"]))

    def look(self, site: Site) -> Look:
        """All that growth depends on. Raises NoAnswer."""
        tried = self._tried(site)
        start = slurm_text.start_of(tried)
        sinfo = ["sinfo", "--noheader", "--all", "--Node", "--format=%N|%R"]
        partition = "" if start is None else start.partition
        mark = _mark()
        listed = self._run(
            [
                *("squeue", "--noheader", "--all", "--states=PENDING"),
                f"--Format={slurm_text.format_of(slurm_text.QUEUE, mark)}",
            ]
        )
        return Look(
            site=site,
            start=start,
            tried=tried,
            neighbours=slurm_text.neighbours_of(self._run(sinfo), partition),
            waiting=self._read(lambda text: slurm_text.waiting_of(text, mark), listed),
        )

    def submit(self, nonce: str, site: Site) -> None:
        """Ask for the job of this nonce. What came of it, ``found`` says. Raises NoAnswer."""
        self._run(["sbatch", "--parsable", *self._options(nonce)], self._script(site))

    def found(self, nonces: Collection[str]) -> Mapping[str, Own]:
        """Those of our jobs that Slurm shows, by nonce; of two the one that isn't over. Raises NoAnswer."""
        if not nonces:
            return {}
        mark = _mark()
        text = self._run(
            [
                *("squeue", "--noheader", "--all", "--states=all", f"--user={os.getuid()}"),
                f"--name={','.join(_name(nonce) for nonce in nonces)}",
                f"--Format={slurm_text.format_of(slurm_text.OWN, mark)}",
            ]
        )
        jobs = self._read(lambda output: slurm_text.own_of(output, mark), text)
        comments = {self._comment(nonce): nonce for nonce in nonces}
        ours = sorted(
            (job for job in jobs if job.comment in comments), key=lambda job: job.ended, reverse=True
        )
        return {comments[job.comment]: job for job in ours}

    def cancel(self, nonce: str) -> None:
        """End the job of this nonce, if there is one: by its name and owner, so it can be no other."""
        self._run(["scancel", f"--user={os.getuid()}", f"--name={_name(nonce)}"])

    def _tried(self, site: Site) -> str:
        """What ``sbatch --test-only`` says, also of a job that cannot be. Raises NoAnswer."""
        words = ["sbatch", "--test-only", *self._options("test")]
        done = self._done(words, self._script(site))
        return done.stderr + done.stdout

    def _options(self, nonce: str) -> list[str]:
        """The site's and the person's first: what follows is not theirs to change."""
        return [
            "--output=fallow-top-up-%j.log",
            *shlex.split(self._job.options),
            *("--nodes=1", "--ntasks=1", "--no-requeue", "--open-mode=append"),
            f"--job-name={_name(nonce)}",
            f"--comment={self._comment(nonce)}",
        ]

    def _comment(self, nonce: str) -> str:
        return COMMENT.format(nonce=nonce, job=self._job.of)

    def _script(self, site: Site) -> str:
        """The agent as a step: a step hears at once that Slurm takes the job back, a batch script last."""
        agent = shlex.join(
            [
                *(self._job.python, "-m", "fallow.agent", self._job.gate),
                *("--token-file", str(self._job.token_file)),
                *("--patience", f"{PATIENCE_S:g}", "--leave-timeout", f"{site.kill_wait_s * LEAVE_SHARE:g}"),
            ]
        )
        cores = "${SLURM_CPUS_PER_TASK:+--cpus-per-task=$SLURM_CPUS_PER_TASK}"
        return f"#!/bin/sh\nexec srun --ntasks=1 {cores} {agent}\n"

    def _run(self, words: Sequence[str], input_text: str = "") -> str:
        done = self._done(words, input_text)
        if done.returncode != 0 or (words[0] != "sbatch" and done.stderr.strip()):
            why = done.stderr.strip() or f"it ended with {done.returncode}"
            raise NoAnswer(f"{words[0]} failed: {why[:300]}")
        return done.stdout

    def _done(self, words: Sequence[str], input_text: str) -> "subprocess.CompletedProcess[str]":
        try:
            return subprocess.run(
                list(words),
                input=input_text,
                env=self._environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError:
            raise NoAnswer(f"{words[0]} is not installed here") from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoAnswer(f"{words[0]} gave no answer: {error}") from None

    def _read(self, reader: Callable[[str], Value], text: str) -> Value:
        try:
            return reader(text)
        except NotRead as error:
            raise NoAnswer(f"Slurm's answer could not be read: {error}") from None


def new_nonce() -> str:
    """A word that no other job has in its name."""
    return secrets.token_hex(8)


def _name(nonce: str) -> str:
    return f"fallow-top-up-{nonce}"


def _mark() -> str:
    """What stands behind each field of one answer: whoever names a job can't know it."""
    return f"\x1f{secrets.token_hex(8)}\x1f"
