"""What can be configured of hooks: a site's own commands for jobs that Fallow did not launch."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from advisor.engines.hook_commands import FIELDS, BadHook, Hook, check_command
from advisor.state.model import IdleRule
from service.config.fields import Misplaced, bounded, told

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
JOB_FIELDS = tuple(each for each in FIELDS if each != "message")
"""A pause or resume is given no free text as an argument: it is on its input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookConfig:
    """A site's own commands for jobs that Fallow did not launch.

    One table a hook, of the jobs in the named places alone; none is there by default. A command is a list:
    the program's absolute path and its arguments, in which `{job}`, `{user}`, `{namespace}`, `{pod}`,
    `{partition}`, `{qos}` and `{number}` are filled in; or one `https://` address. How to write one:
    [hooks](hooks.md).
    """

    namespaces: tuple[str, ...] = told((), "namespaces of Kubernetes whose pods it is for")
    partitions: tuple[str, ...] = told((), "partitions of Slurm whose jobs it is for")
    qos: tuple[str, ...] = told((), "QOS of Slurm whose jobs it is for")
    tell: tuple[str, ...] = told(
        (), "tells a job's owner; `{message}` is what to say. One that ends with 0 has reached the owner"
    )
    pause: tuple[str, ...] = told((), "takes a job off its GPUs; needs `resume`")
    resume: tuple[str, ...] = told((), "lets it go on")
    limit_s: float = bounded(30.0, 1, 300, "a command is ended after so many seconds")
    idle_hours: float = bounded(
        0.0,
        0,
        720,
        "a rule: who is idle for so long is warned, then paused; it stands for consent in the named places, "
        "and only in a file that root alone may write. 0: only who agreed is paused",
    )
    warnings: int = bounded(2, 1, 10, "so many warnings must have reached the owner first")
    message: str = told(
        "", "what owners are told, with `{user}`, `{job}` and `{idle}`; what follows is said after it"
    )

    def __post_init__(self) -> None:
        places = (*self.namespaces, *self.partitions, *self.qos)
        if not places:
            raise ValueError("a hook names its namespaces, partitions or QOS")
        odd = next((each for each in places if not re.fullmatch(r"[A-Za-z0-9_][\w.-]*", each)), None)
        if odd is not None:
            raise ValueError(f"{odd!r} names no place: each is written out, so that none is meant by chance")
        if not (self.tell or self.pause):
            raise ValueError("a hook has a command: tell, or pause and resume")
        if bool(self.pause) != bool(self.resume):
            raise ValueError("pause needs resume, and resume pause: what can't be undone is no pause")
        if 0 < self.idle_hours < 1:
            raise ValueError(f"idle_hours = {self.idle_hours:g}: less than an hour is no rule; 0 is none")
        if self.idle_hours and not self.pause:
            raise ValueError("idle_hours is when to pause: write pause and resume too")
        for key, fields in (("tell", FIELDS), ("pause", JOB_FIELDS), ("resume", JOB_FIELDS)):
            try:
                check_command(getattr(self, key), fields)
            except BadHook as error:
                raise Misplaced(f"{key}: {error}", key) from None


def check_hooks(hooks: Mapping[str, HookConfig]) -> None:
    """Whether each job has at most one hook, and names are names. Raises ``Misplaced``."""
    first: dict[tuple[str, str], str] = {}
    for name, hook in hooks.items():
        if not NAME.fullmatch(name):
            raise Misplaced(f"{name!r} is no name of a hook: letters, digits, - and _", "hooks", name)
        for kind in ("namespaces", "partitions", "qos"):
            for place in getattr(hook, kind):
                other = first.setdefault((kind, place), name)
                if other != name:
                    sentence = f"hooks.{name} and hooks.{other} both name {place}: which one is meant?"
                    raise Misplaced(sentence, "hooks", name, kind)


def hooks_of(hooks: Mapping[str, HookConfig]) -> tuple[Hook, ...]:
    """The hooks as the engine takes them."""
    return tuple(
        Hook(
            name=name,
            namespaces=frozenset(each.namespaces),
            partitions=frozenset(each.partitions),
            qos=frozenset(each.qos),
            tell=each.tell,
            pause=each.pause,
            resume=each.resume,
            limit_s=each.limit_s,
            idle_s=round(each.idle_hours * 3600) or None,
            warnings=each.warnings,
            message=each.message,
        )
        for name, each in hooks.items()
    )


def idle_rule(hook: Hook) -> IdleRule | None:
    """A hook's rule as decisions take it; ``None``: it has none."""
    if hook.idle_s is None:
        return None
    return IdleRule(name=hook.name, idle_s=hook.idle_s, warnings=hook.warnings, message=hook.message)
