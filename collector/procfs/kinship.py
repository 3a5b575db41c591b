"""Which process heads the job that a process belongs to, decided on its line of ancestors.

Eight ranks under torchrun, a script that starts trainings, a notebook kernel with workers: one job each.
Two trainings started by hand in one shell: two jobs. So one climbs from the process towards init, and
stops below whatever merely hosts other people's work: a shell at a prompt, sshd, tmux, a container's init.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from collector.model import JobKind
from collector.procfs.commands import is_inference_server, launcher, notebook_kernel

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "fish", "ksh", "mksh", "csh", "tcsh", "nu", "xonsh"})

_HOSTS = re.compile(
    r"systemd|init|\(sd-pam\)|sshd.*|login|su|sudo|runuser|doas|cron|crond|CRON|atd|anacron"
    r"|tmux.*|screen|SCREEN|byobu|mosh-server|xterm|gnome-terminal.*|konsole|kitty|alacritty|zellij|dtach"
    r"|containerd.*|dockerd|docker-init|conmon|tini|dumb-init|catatonit|s6-.*|runsv.*|supervisord|runc|crun"
    r"|slurmstepd.*|slurmd|sge_shepherd|pbs_mom|condor_.*|tsp?|pueued|at"
    r"|jupyter-.*|jupyterhub.*|code-server|code|node|rsession|rserver|ttyd|wetty"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kin:
    """One process in a line of ancestors."""

    pid: int
    started_ms: int
    parent_pid: int
    uid: int | None
    name: str
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The head of the job, and what the line of ancestors told on the way up; ``above``: their pids."""

    head: Kin
    above: tuple[int, ...] = ()
    notebook: str | None
    launcher: str | None
    is_inference: bool


def family(line: Sequence[Kin]) -> Family:
    """The family of ``line[0]``, whose parent is ``line[1]`` and so on, as far up as could be read."""
    own = _of_one_user(line)
    for kin in own:
        if kernel := notebook_kernel(kin.argv):
            return Family(head=kin, notebook=kernel, launcher=None, is_inference=False)
    climbed = _climb(own)
    launchers = (launcher(kin.argv) for kin in climbed)
    return Family(
        head=climbed[-1],
        above=tuple(kin.pid for kin in climbed[1:]),
        notebook=None,
        launcher=next((name for name in launchers if name), None),
        is_inference=any(is_inference_server(kin.argv) for kin in climbed),
    )


def job_kind(relatives: Family, *, at_terminal: bool, listens: bool = False) -> JobKind:
    """How the job is used: somebody waits at a notebook or a terminal; a server waits for requests."""
    if relatives.notebook is not None:
        return JobKind.INTERACTIVE
    if relatives.is_inference or listens:
        return JobKind.INFERENCE
    return JobKind.INTERACTIVE if at_terminal else JobKind.BATCH


def _of_one_user(line: Sequence[Kin]) -> list[Kin]:
    own = [line[0]]
    for kin in line[1:]:
        if kin.uid != line[0].uid or kin.pid <= 1:
            break
        own.append(kin)
    return own


def _climb(own: Sequence[Kin]) -> list[Kin]:
    climbed = [own[0]]
    for kin in own[1:]:
        if _is_host(kin):
            break
        climbed.append(kin)
    return climbed


def _is_host(kin: Kin) -> bool:
    if _HOSTS.fullmatch(kin.name):
        return True
    programs = {argument.rsplit("/", 1)[-1] for argument in kin.argv[:2]}
    if any(program.startswith(("jupyter-lab", "jupyter-notebook", "jupyterhub")) for program in programs):
        return True
    return kin.name.lstrip("-") in _SHELLS and _is_at_prompt(kin.argv)


def _is_at_prompt(argv: Sequence[str]) -> bool:
    """Whether a shell waits for a person: it was given neither a script nor a command."""
    rest = argv[1:]
    if any(argument in ("-i", "-il", "-li", "--init-file", "--rcfile") for argument in rest):
        return True
    is_command = any(a.startswith("-") and not a.startswith("--") and "c" in a for a in rest)
    return not is_command and all(argument.startswith("-") for argument in rest)
