"""Whether this account sees everybody's jobs in Slurm: a list without other people's jobs is no answer.

With ``PrivateData=jobs`` (slurm.conf(5)) squeue shows an ordinary account its own jobs alone, and doesn't say
so; root, SlurmUser, operators and administrators see all.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from collector.inventory.slurm_programs import NoAnswer

_SETTING = re.compile(r"^(?P<name>\w+)\s*=\s*(?P<value>.*?)\s*$", re.MULTILINE)
_SLURM_USER = re.compile(r".*\((?P<uid>\d+)\)$")
SEEING = frozenset({"operator", "administrator"})

Run = Callable[[tuple[str, ...]], str | None]
"""The output of a command; ``None`` where it could not be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """As whom Slurm is asked: of which cluster, and why others' jobs are hidden, if they are.

    ``is_slurms``: root or SlurmUser, from whom Slurm hides nothing.
    """

    cluster: str
    hidden: str | None = None
    is_slurms: bool = False


def account_of(ask: Callable[[Sequence[str]], str], uid: int | None = None) -> Account:
    """The cluster, and what this account does not see of it. Blocks. Raises NoAnswer as ``ask`` does."""

    def asked(command: tuple[str, ...]) -> str | None:
        try:
            return ask(command)
        except NoAnswer:
            return None

    settings = settings_of(ask(("scontrol", "show", "config")))
    own = os.geteuid() if uid is None else uid
    return Account(
        cluster=settings.get("ClusterName", ""),
        hidden=_hidden(settings, asked, own),
        is_slurms=_is_slurms(settings, own),
    )


def settings_of(config: str) -> dict[str, str]:
    """What ``scontrol show config`` printed, by name."""
    return {match["name"]: match["value"] for match in _SETTING.finditer(config)}


def _is_slurms(settings: Mapping[str, str], own: int) -> bool:
    slurm_user = _SLURM_USER.match(settings.get("SlurmUser", ""))
    return own == 0 or (slurm_user is not None and int(slurm_user["uid"]) == own)


def _hidden(settings: Mapping[str, str], ask: Run, own: int) -> str | None:
    private = {each.strip().lower() for each in settings.get("PrivateData", "").split(",")}
    if not private & {"jobs", "all"} or _is_slurms(settings, own):
        return None
    level = ask(("sacctmgr", "--noheader", "--parsable2", "show", "user", f"{own}", "format=AdminLevel"))
    if level is not None and SEEING & {line.strip().lower() for line in level.splitlines()}:
        return None
    return (
        "Slurm hides other people's jobs from this account (PrivateData=jobs), so its list does not say what "
        "they hold; give the account AdminLevel=Operator, or run the service as SlurmUser"
    )
