"""The exact ``fallow run`` command for what somebody chose in a form. Pure: text in, text out.

The dashboard never runs anybody's command: a job belongs to the person in whose shell it is started, with
their files and their rights. So the form ends in a line to copy, quoted for a POSIX shell.
"""

import re
import shlex
from dataclasses import dataclass

SIGNALS = ("USR1", "USR2", "TERM", "HUP", "INT")
_NAME = re.compile(r"([^\W_][\w .:+@=,()#-]{0,99})?")
_MEMORY = re.compile(r"\d+(\.\d+)?\s*(GiB|MiB|GB|MB)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What was chosen. ``share`` under 1 is a part of one GPU; ``memory`` is text such as ``12GiB``."""

    command: str
    project: str = ""
    name: str = ""
    min_gpus: int = 1
    max_gpus: int = 1
    share: float = 1.0
    memory: str = ""
    priority: int = 0
    interactive: bool = False
    preemptible: bool = False
    elastic: bool = False
    signal: str | None = None
    restarts: int = 0
    detach: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclear:
    """Why there is no command yet: a sentence a field."""

    problems: tuple[str, ...]


def composed(wish: Wish) -> str | Unclear:
    """The line to type, or what is missing."""
    problems = tuple(_problems(wish))
    if problems:
        return Unclear(problems=problems)
    words = ["fallow", "run"]
    words += ["--project", wish.project] if wish.project else []
    words += ["--gpus", _gpus(wish)]
    words += ["--memory", wish.memory.replace(" ", "")] if wish.memory else []
    words += ["--name", wish.name] if wish.name else []
    words += ["--priority", str(wish.priority)] if wish.priority else []
    words += ["--interactive"] if wish.interactive else []
    words += ["--preemptible"] if wish.preemptible else []
    words += ["--elastic"] if wish.elastic else []
    words += ["--checkpoint-signal", wish.signal] if wish.signal else []
    words += ["--restarts", str(wish.restarts)] if wish.restarts else []
    words += ["--detach"] if wish.detach else []
    return f"{shlex.join(words)} -- {wish.command.strip()}"


def command(verb: str, *rest: str) -> str:
    """A verb as it is typed: ``fallow pause fallow:7``."""
    return shlex.join(["fallow", verb, *rest])


def _gpus(wish: Wish) -> str:
    if wish.share < 1:
        return f"{wish.share:g}"
    return str(wish.min_gpus) if wish.min_gpus == wish.max_gpus else f"{wish.min_gpus}-{wish.max_gpus}"


def _shell_problems(command: str) -> list[str]:
    """A pipe or a second command would run outside the job, which only holds what ``fallow run`` starts."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        tokens = list(lexer)
    except ValueError as error:
        return [f"A shell cannot read this command: {str(error).lower()}."]
    parts = [token for token in tokens if token and set(token) <= set("();<>|&")]
    if parts:
        return [f"{parts[0]} would be read by the shell, outside the job; put the command into a script."]
    return []


def _problems(wish: Wish) -> list[str]:
    found = []
    command = wish.command.strip()
    if not command:
        found.append("Say what is to be run, for example: python train.py")
    elif "\n" in command:
        found.append("The command is one line; put more than that into a script.")
    else:
        found += _shell_problems(command)
    if wish.max_gpus < wish.min_gpus:
        found.append(f"At most {wish.max_gpus} GPUs is less than at least {wish.min_gpus}: swap the two.")
    if wish.max_gpus > wish.min_gpus and not (wish.elastic or wish.signal):
        found.append("A range of GPUs is for a job that uses fallow or checkpoints on a signal: say which.")
    if wish.memory and not _MEMORY.fullmatch(wish.memory.strip()):
        found.append(f"Memory is a number and a unit, such as 12GiB, not {wish.memory!r}.")
    if not all(_NAME.fullmatch(text) for text in (wish.name, wish.project)):
        found.append(
            "A name or project begins with a letter or digit, and has no other signs than .:+@=,()#-_"
        )
    return found
