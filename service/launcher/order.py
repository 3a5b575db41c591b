"""What ``fallow run`` was asked for, checked where it enters: a submission, and what stays here. Pure.

The command and ``--env`` never leave this machine's launcher but as text for people to read.
"""

import argparse
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from advisor.jobs.model import Elasticity, Submission
from advisor.state.model import ActionClass, ProjectName, Topology
from analytics.vocabulary.jobs import submitted_id
from collector.model import JobId, JobKind, NodeName
from collector.procfs.job_root import masked, without_secrets
from service import names
from service.durations import parse_span
from service.errors import FallowError
from service.launcher.model import Terms
from service.launcher.world import Workers

# Names of GPUs have under 40 characters.
LONGEST_MODEL = 64
# More than any machine has: a typing error is told at once.
MOST_GPUS = 1024
CONTROLLER = "fallow.controller"
PROJECT_VARIABLE = "FALLOW_PROJECT"
SIGNALS = ("USR1", "USR2", "INT", "TERM", "HUP")
"""What a job can be asked to save itself with: a script must be able to catch it."""
_UNITS = {
    "": 1, "B": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30,
    "TIB": 2**40, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
}  # fmt: skip
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_COUNT = re.compile(r"(\d+)(?:-(\d+))?")
_SHARE = re.compile(r"(?:(\d+)x)?(0?\.\d+)")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PYTHON = re.compile(r"python(\d(\.\d+)?)?")
_WITH_VALUE = ("-X", "-W")


class BadOrder(FallowError):
    """What was asked for makes no sense; the message says what to write instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A job to be: what is submitted, and what only its launcher needs."""

    submission: Submission
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    workers: Workers = Workers.ONE
    detach: bool = False

    @property
    def terms(self) -> Terms:
        """What its course depends on."""
        submission = self.submission
        return Terms(
            mobility=submission.mobility,
            workers=self.workers,
            grace_s=submission.grace_s,
            restarts=submission.restarts,
            limit_s=submission.limit_s,
        )


def read(
    flags: argparse.Namespace,
    *,
    user: str,
    uid: int,
    node: str,
    folder: str,
    nonce: str,
    project: str,
    environment: Mapping[str, str],
) -> Order:
    """The order behind the flags; ``project`` where none is named: $FALLOW_PROJECT, or the user's own.

    ``environment`` is that of who asks: there ``--env NAME`` takes its value.
    Raises ``BadOrder``, ``BadSpan``.
    """
    argv = tuple(_plain(argument, "the command") for argument in flags.command)
    if not argv:
        raise BadOrder(
            "there is no command to run; write it after --: fallow run --gpus 1 -- python train.py"
        )
    least, most, share = read_gpus(flags.gpus)
    mobility, workers = _mobility(flags, argv), Workers(flags.workers or Workers.ONE)
    _agree(flags, mobility, workers, share)
    submission = Submission(
        command=argv,
        user=user,
        uid=uid,
        project=ProjectName(_project(flags.project, project)),
        name=_named(flags.name, names.NAME, "--name") if flags.name else "",
        folder=folder,
        node=NodeName(node),
        kind=JobKind.INTERACTIVE if flags.interactive else JobKind.BATCH,
        min_gpus=least,
        max_gpus=most,
        share=share,
        memory_bytes=None if flags.memory is None else read_memory(flags.memory),
        priority=flags.priority,
        preemptible=mobility is not Elasticity.RIGID if flags.preemptible is None else flags.preemptible,
        may_share=flags.share_ok or share < 1,
        mobility=mobility,
        checkpoint_signal=None if flags.checkpoint_signal is None else read_signal(flags.checkpoint_signal),
        grace_s=parse_span(flags.grace).total_seconds(),
        restarts=flags.restarts,
        memory_defaults=not flags.no_memory_defaults,
        gpu_models=tuple(_model(each) for each in flags.gpu_model),
        topology=_topology(flags, least, workers, mobility),
        after=tuple(dict.fromkeys(_submitted(each) for each in flags.after)),
        limit_s=None if flags.time_limit is None else parse_span(flags.time_limit).total_seconds(),
        opted_out=frozenset({ActionClass.BACKGROUND}) if flags.background is False else frozenset(),
        nonce=nonce,
        background=flags.background is True,
    )
    return Order(
        submission=submission,
        argv=argv,
        environment=dict(_variable(each, environment) for each in flags.env),
        workers=workers,
        detach=flags.detach,
    )


def read_gpus(text: str) -> tuple[int, int, float]:
    """``2``, ``1-4``, ``0.5``, ``2x0.5`` as (fewest, most, share of each). Raises ``BadOrder``."""
    if match := _COUNT.fullmatch(text):
        least = int(match[1])
        most = int(match[2] or match[1])
        if not 1 <= least <= most:
            raise BadOrder(f"--gpus {text}: from at least one to no fewer than that, for example 1-4")
        share = 1.0
    elif match := _SHARE.fullmatch(text):
        least = most = int(match[1] or 1)
        share = float(match[2])
        if not least or not share:
            raise BadOrder(f"--gpus {text}: that is no GPU at all; write for example 0.5 or 2x0.5")
    else:
        raise BadOrder(f"--gpus {text!r} cannot be read; write for example 1, 1-4, 0.5 or 2x0.5")
    if most > MOST_GPUS:
        raise BadOrder(f"--gpus {text}: more than {MOST_GPUS} are more than one machine has")
    return least, most, share


def read_memory(text: str) -> int:
    """``12GiB``, ``800M``, ``16 GB`` in bytes. Raises ``BadOrder``."""
    match = _MEMORY.fullmatch(text.strip())
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None or not (size := int(float(match[1]) * unit)):
        raise BadOrder(f"--memory {text!r} cannot be read; write for example 12GiB or 800MiB, for each GPU")
    return size


def read_signal(text: str) -> str:
    """``USR1`` or ``SIGUSR1`` as ``USR1``. Raises ``BadOrder``."""
    name = text.upper().removeprefix("SIG")
    if name not in SIGNALS:
        raise BadOrder(
            f"--checkpoint-signal {text!r}: give one that a script can catch: {', '.join(SIGNALS)}"
        )
    return name


def signal_number(name: str) -> int:
    """The number of a name that ``read_signal`` wrote."""
    return int(signal.Signals[f"SIG{name}"])


def elastic_parts(argv: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """(interpreter with its flags, options of a controller, script with arguments) of an elastic training.

    ``python train.py``, ``python -m package.train`` and ``python -m fallow.controller ... -- train.py``.
    Raises ``BadOrder`` for what is none of them.
    """
    at = 1
    if _PYTHON.fullmatch(argv[0].rpartition("/")[2]):
        while at < len(argv) and argv[at].startswith("-") and argv[at] not in ("-m", "-c", "-"):
            at += 2 if argv[at] in _WITH_VALUE else 1
        script = tuple(argv[at:])
        if script[:2] == ("-m", CONTROLLER) and "--" in script:
            split = script.index("--")
            return tuple(argv[:at]), script[2:split], script[split + 1 :]
        if script and script[0] not in ("-c", "-"):
            return tuple(argv[:at]), (), script
    raise BadOrder(
        f"an elastic training is started as `python SCRIPT` or `python -m MODULE`, not as {' '.join(argv)!r}"
    )


def is_driven(argv: Sequence[str]) -> bool:
    """Whether the command starts an elastic training's controller by itself."""
    try:
        return tuple(argv[argv.index(CONTROLLER) - 1 :][:2]) == ("-m", CONTROLLER) and bool(
            elastic_parts(argv)
        )
    except (ValueError, BadOrder):
        return False


def _mobility(flags: argparse.Namespace, argv: Sequence[str]) -> Elasticity:
    if flags.elastic or is_driven(argv):
        return Elasticity.ELASTIC
    return Elasticity.RIGID if flags.checkpoint_signal is None else Elasticity.CHECKPOINTS


def _submitted(text: str) -> JobId:
    """``7`` and ``fallow:7`` as the id of a submitted job. Raises ``BadOrder``."""
    number = text.rpartition(":")[2]
    job = submitted_id(number)
    if text not in (number, job) or re.fullmatch("[0-9]+", number) is None:
        raise BadOrder(
            f"--after {text!r}: give the number of a job that `fallow run` submitted, for example 7"
        )
    return JobId(job)


def _topology(flags: argparse.Namespace, least: int, workers: Workers, mobility: Elasticity) -> Topology:
    """What was asked for; of one process with several GPUs one machine, which is all that it can use."""
    if flags.topology is not None:
        return Topology(flags.topology)
    alone = workers is Workers.ONE and mobility is not Elasticity.ELASTIC
    return Topology.NODE if alone and least > 1 else Topology.ANY


def _agree(flags: argparse.Namespace, mobility: Elasticity, workers: Workers, share: float) -> None:
    """Raises ``BadOrder`` for flags that contradict each other."""
    if mobility is Elasticity.ELASTIC:
        elastic_parts(flags.command)
    if flags.checkpoint_signal is not None and mobility is Elasticity.ELASTIC:
        raise BadOrder("an elastic training saves itself when asked: leave --checkpoint-signal out")
    if flags.preemptible and mobility is Elasticity.RIGID:
        raise BadOrder(
            "--preemptible needs a way to stop the job without loss: --checkpoint-signal USR1 for a job that "
            "saves itself when it gets that signal, or --elastic for one that uses fallow"
        )
    if workers is not Workers.ONE and mobility is Elasticity.ELASTIC:
        raise BadOrder("an elastic training starts its own workers, one a GPU: leave --workers out")
    if workers is not Workers.ONE and share < 1:
        raise BadOrder("--workers starts one process a whole GPU; for a part of one leave it out")
    if flags.background and (flags.gpus != "1" or mobility is Elasticity.ELASTIC or flags.preemptible):
        raise BadOrder(
            "--background runs one process in another job's idle gaps, on a GPU that stays the other's: "
            "leave --gpus, --elastic and --preemptible out"
        )
    if flags.background and (workers is not Workers.ONE or flags.interactive):
        raise BadOrder(
            "--background runs one process without a terminal: leave --workers and --interactive out"
        )
    if flags.background and flags.memory is None:
        raise BadOrder(
            "--background needs --memory SIZE: a job that takes more than is free beside the other ends both"
        )
    if flags.restarts < 0:
        raise BadOrder(f"--restarts {flags.restarts}: a job is started again 0 times or more")
    if flags.detach and flags.interactive:
        raise BadOrder("a detached job has no terminal: leave --interactive or --detach out")


def _project(flag: str | None, otherwise: str) -> str:
    if flag:
        return _named(flag, names.PROJECT, "--project")
    return _named(otherwise, names.PROJECT, f"${PROJECT_VARIABLE}")


def _named(text: str, rule: names.Rule, where: str) -> str:
    """The text as it is kept; ``where`` it was given."""
    why = names.objection(text, rule)
    if why is not None:
        raise BadOrder(f"{where}: {why}")
    return names.composed(text)


def _model(text: str) -> str:
    if not text or len(text) > LONGEST_MODEL or not text.isprintable() or text.strip() != text:
        raise BadOrder(
            f"--gpu-model {text[:LONGEST_MODEL]!r}: 1 to {LONGEST_MODEL} printable characters, no space at "
            "its ends"
        )
    return text


def _plain(text: str, what: str) -> str:
    if "\0" in text:
        raise BadOrder(f"{what} holds a zero byte, which no program can be given")
    return text


def shown_to_all(argv: Sequence[str], variables: Sequence[str]) -> str | None:
    """What of a command and its ``--env`` sounds like a secret, though everybody can read it; in words."""
    if masked(argv) != tuple(argv):
        return "the command seems to hold a secret, and everybody on this machine can read it"
    pairs = (each.partition("=") for each in variables)
    texts = [
        name
        for name, equals, value in pairs
        if equals and without_secrets(f"{name}={value}") != f"{name}={value}"
    ]
    return f"everybody on this machine can read the value of {texts[0]} in this command" if texts else None


def _variable(text: str, environment: Mapping[str, str]) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not _VARIABLE.fullmatch(name):
        raise BadOrder(
            f"--env {name!r} cannot be read; write NAME=VALUE, or NAME for a variable that is set here"
        )
    if not equals:
        if name not in environment:
            raise BadOrder(f"--env {name}: it is not set here; export it first, or write {name}=VALUE")
        value = environment[name]
    if name == "CUDA_VISIBLE_DEVICES":
        raise BadOrder("--env CUDA_VISIBLE_DEVICES: the lease says which GPUs the job sees")
    if any(not each.isprintable() and each not in "\n\t" for each in value):
        raise BadOrder(f"--env {name}: its value holds a control character")
    return name, value
