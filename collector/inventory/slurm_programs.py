"""Asks Slurm's own programs for text: what they print, or why there is no answer."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

TIMEOUT_S = 6.0
"""Below the loop's own limit for a source, so that the reason is ours."""

OPTIONS = ("SQUEUE_", "SINFO_", "SACCT_", "SCONTROL_")
OWN = {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "4096"}
"""Times as seconds since the epoch, in any time zone; lists of array tasks without dots at their end."""

NAMED = ("SLURM_CONF", "SLURM_CONF_SERVER")
FILES = (
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/usr/local/etc/slurm.conf",
    "/run/slurm/conf/slurm.conf",
)
"""Where packages and a build keep it, and where slurmd keeps what it fetched."""

UNCONFIGURED = "Could not establish a configuration source"
"""Slurm 20.02 and later, where no file and no DNS record says whom to ask."""

SAID_CHARS = 200
"""Of a program's last line: it is shown on one line of a screen."""


class NoAnswer(Exception):
    """Slurm could not be asked, or did not answer; the message is for people, and says what to do."""


def answer(
    command: Sequence[str], timeout_s: float = TIMEOUT_S, more: Mapping[str, str] | None = None
) -> str:
    """What the command printed, ``more`` in its environment. Blocks up to the timeout. Raises NoAnswer.

    Exit code 0 is not believed alone: squeue of 22.05 ends with 0 and no jobs where its controller is away
    and JSON is asked for, and then says so elsewhere.
    """
    program = command[0]
    if shutil.which(program) is None:
        raise NoAnswer(f"{program} is not on the PATH: no Slurm here, or install its client tools")
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**_environment(os.environ), **(more or {})},
        )
    except subprocess.TimeoutExpired:
        raise NoAnswer(
            f"{program} gave no answer in {timeout_s:.2g} s; is slurmctld up, and munge?"
        ) from None
    except OSError as error:
        raise NoAnswer(f"{program} could not be run: {error.strerror}") from error
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    last = lines[-1][:SAID_CHARS] if lines else "no message"
    if done.returncode != 0:
        raise NoAnswer(f"{program} ended with {done.returncode}: {last}")
    if any("error" in line.lower() for line in lines):
        raise NoAnswer(f"{program} has no answer from Slurm ({last}); is slurmctld up, and munge?")
    return done.stdout.decode("utf-8", "replace")


def is_a_site(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this machine belongs to a Slurm cluster: its programs are here, and know of one. Blocks.

    The programs alone come with a package. Where no file says which cluster, they look in DNS themselves
    (configless_slurm.html): only then are they asked, and one that is merely silent counts as there.
    """
    if shutil.which("squeue") is None:
        return False
    if any(environment.get(name) for name in NAMED) or any(Path(path).exists() for path in FILES):
        return True
    try:
        answer(("scontrol", "show", "config"))
    except NoAnswer as failure:
        return UNCONFIGURED not in str(failure)
    return True


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Without whatever would make the programs leave something out: SQUEUE_PARTITION filters silently."""
    variables = {name: value for name, value in environment.items() if not name.startswith(OPTIONS)}
    return variables | OWN
