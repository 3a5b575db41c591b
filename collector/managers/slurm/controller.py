"""What Slurm's controller says of itself: when it began, how far its numbers are, how long jobs have to save.

It may have forgotten the newest jobs, or that one was to be held, when it was killed: who acts looks here
first (``advisor.engines.slurm``).
"""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from collector.inventory.slurm_programs import NoAnswer
from collector.inventory.slurm_rights import SEEING, settings_of

COMMAND = ("scontrol", "show", "config")
SAVED = 75
"""The exit code of a job that saved itself and wants to be held: EX_TEMPFAIL of sysexits.h."""

_NUMBER = re.compile(r"\d{1,18}")
_UID = re.compile(r".*\((?P<uid>\d{1,10})\)")
_EXPIRE = re.compile(r"(?:^|,)cred_expire=(\d{1,9})")
BOOT_DIGITS = 12
"""Of seconds since the epoch, as SLURM_TIME_FORMAT=%s makes Slurm write times, with room to spare."""
CRED_EXPIRE_S = 120
"""Slurm's own where AuthInfo has none (slurm.conf(5)); a requeued job may not start again before."""


class Reach(StrEnum):
    """On whose jobs an account may act: as SlurmUser, root or an operator on ALL."""

    ALL = "all"
    OWN = "own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """``began_ms``: when this slurmctld was started, UTC. ``next_number``: what the next job will be called.

    ``kill_wait_s``: from TERM to KILL. ``holds_saved``: a job that ends with ``SAVED`` is held under its id.
    ``requeue_rest_s``: so long after its requeue a job is not started again. ``None``: it isn't said.
    """

    cluster: str
    began_ms: int
    next_number: int | None = None
    slurm_uid: int | None = None
    kill_wait_s: int | None = None
    requeue_rest_s: int = CRED_EXPIRE_S + 1
    holds_saved: bool = False


def controller_of(config: str) -> Controller:
    """What ``scontrol show config`` printed. Raises NoAnswer where it doesn't say when slurmctld began."""
    settings = settings_of(config)
    began = settings.get("BOOT_TIME", "")
    if not began.isdecimal() or len(began) > BOOT_DIGITS:
        raise NoAnswer("scontrol show config does not say BOOT_TIME, so a restart could not be seen")
    expire = _EXPIRE.search(settings.get("AuthInfo", ""))
    uid = _UID.fullmatch(settings.get("SlurmUser", ""))
    return Controller(
        cluster=settings.get("ClusterName", ""),
        began_ms=int(began) * 1000,
        next_number=_first(settings.get("NEXT_JOB_ID", "")),
        slurm_uid=None if uid is None else int(uid["uid"]),
        kill_wait_s=_first(settings.get("KillWait", "")),
        requeue_rest_s=(CRED_EXPIRE_S if expire is None else int(expire[1])) + 1,
        holds_saved=SAVED in _codes(settings.get("RequeueExitHold", "")),
    )


def reach_of(controller: Controller, ask: Callable[[Sequence[str]], str], uid: int | None = None) -> Reach:
    """On whose jobs this account may act; own ones alone where nobody says more. Blocks."""
    own = os.geteuid() if uid is None else uid
    if own in (0, controller.slurm_uid):
        return Reach.ALL
    try:
        level = ask(("sacctmgr", "--noheader", "--parsable2", "show", "user", f"{own}", "format=AdminLevel"))
    except NoAnswer:  # without accounting nobody is an operator
        return Reach.OWN
    return Reach.ALL if SEEING & {word.strip().lower() for word in level.splitlines()} else Reach.OWN


def _first(text: str) -> int | None:
    match = _NUMBER.match(text)
    return None if match is None else int(match[0])


def _codes(text: str) -> set[int]:
    """``75,100-102`` (slurm.conf(5), RequeueExitHold)."""
    codes: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal() and len(first) <= 3 and (last or first).isdecimal() and len(last) <= 3:
            codes |= set(range(int(first), int(last or first) + 1))
    return codes
