"""The form that ends in a command to copy: how a job is submitted. Effects: it draws.

The exact ``fallow run`` command for what somebody chose in a form. Pure: text in, text out.

The dashboard never runs anybody's command: a job belongs to the person in whose shell it is started, with
their files and their rights. So the form ends in a line to copy, quoted for a POSIX shell.
"""

import re
import shlex
from dataclasses import dataclass

import streamlit as st

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
    problems = []
    command = wish.command.strip()
    if not command:
        problems.append("Say what is to be run, for example: python train.py")
    elif "\n" in command:
        problems.append("The command is one line; put more than that into a script.")
    else:
        problems += _shell_problems(command)
    if wish.max_gpus < wish.min_gpus:
        problems.append(f"At most {wish.max_gpus} GPUs is less than at least {wish.min_gpus}: swap the two.")
    if wish.max_gpus > wish.min_gpus and not (wish.elastic or wish.signal):
        problems.append(
            "A range of GPUs is for a job that uses fallow or checkpoints on a signal: say which."
        )
    if wish.memory and not _MEMORY.fullmatch(wish.memory.strip()):
        problems.append(f"Memory is a number and a unit, such as 12GiB, not {wish.memory!r}.")
    if not all(_NAME.fullmatch(text) for text in (wish.name, wish.project)):
        problems.append(
            "A name or project begins with a letter or digit, and has no other signs than .:+@=,()#-_"
        )
    return problems


SIZES = {"whole": "Whole GPUs", "share": "A share of one"}


def composer() -> None:
    """The form, folded away until somebody wants it."""
    with st.expander("Submit a job", icon=":material/terminal:", key="composer"):
        st.caption(
            "A job runs as whoever starts it, with their files and rights, so it is started in your own "
            "shell: choose here, copy the line, and run it where the job's files are."
        )
        result = composed(_wish())
        if isinstance(result, Unclear):
            st.info(" ".join(result.problems), icon=":material/edit:")
        else:
            st.code(result, language="shell", wrap_lines=True)
            st.caption("It waits in the queue with a line that says what for; Ctrl-C takes it back.")


def _wish() -> Wish:
    command = st.text_input("Command", key="wish-command", placeholder="python train.py --epochs 90")
    first, second, third = st.columns(3)
    project = first.text_input("Project", key="wish-project", placeholder="vision")
    name = second.text_input("Name", key="wish-name", placeholder="resnet-sweep")
    memory = third.text_input("Memory on each GPU", key="wish-memory", placeholder="12GiB, if you know it")
    first, second, third = st.columns(3, vertical_alignment="bottom")
    size = first.segmented_control(
        "GPUs",
        list(SIZES),
        default="whole",
        key="wish-size",
        format_func=lambda size: SIZES[size],
        required=True,
    )
    low, high, share = 1, 1, 1.0
    if size == "share":
        share = second.slider("Share", 0.1, 0.9, 0.5, 0.1, key="wish-share")
    else:
        low = second.number_input("At least", 1, 1024, 1, key="wish-low")
        high = third.number_input("At most", 1, 1024, 1, key="wish-high", help="More than at least: elastic")
    first, second, third = st.columns(3, vertical_alignment="bottom")
    priority = first.number_input("Priority", -1000, 1000, 0, key="wish-priority")
    signal = second.selectbox(
        "Checkpoints on signal", SIGNALS, index=None, key="wish-signal", placeholder="It does not"
    )
    restarts = third.number_input("Restarts after a failure", 0, 100, 0, key="wish-restarts")
    with st.container(horizontal=True):
        interactive = st.checkbox("Somebody sits at it", key="wish-interactive")
        elastic = st.checkbox("It uses fallow", key="wish-elastic", help="Resized while it runs")
        preemptible = st.checkbox("May be paused for others", key="wish-preemptible")
        detach = st.checkbox("Run on without the terminal", key="wish-detach")
    return Wish(
        command=command or "",
        project=(project or "").strip(),
        name=(name or "").strip(),
        min_gpus=int(low),
        max_gpus=max(int(high), int(low)) if high == 1 else int(high),
        share=float(share),
        memory=(memory or "").strip(),
        priority=int(priority),
        interactive=bool(interactive),
        preemptible=bool(preemptible),
        elastic=bool(elastic),
        signal=signal,
        restarts=int(restarts),
        detach=bool(detach),
    )
