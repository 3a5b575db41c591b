"""What a command line tells: the text that may be stored, the notebook kernel, the launcher, the server.

Command lines are readable by every user of a machine, but a store lives longer than a process: whatever
looks like a secret is replaced before anything else is done with the text.
"""

import re
from collections.abc import Sequence

COMMAND_CHARS = 512
"""Longest command line that is kept; what is cut off is marked by an ellipsis."""

ARGUMENT_CHARS = 4096
"""How much of one argument is searched for secrets: a script given on the command line may have megabytes."""

SEARCHED_CHARS = 4 * ARGUMENT_CHARS
"""How much of a whole command line is searched: of it COMMAND_CHARS are kept, and masks shorten it."""

HEAD_CHARS = 1024
"""Of each of the first arguments, by which launchers and servers are known: a path and a name."""

HIDDEN = "***"

_SECRET_WORD = (
    r"(?:[\w.-]*[-_.])?(?:token\d*|password|passwd|passphrase|pass|pgpass|pwd|jwt|bearer|secret|credentials?|auth|apikey|api[-_]?key"
    r"|(?:access|secret|private|account|signing|encryption|license|master|storage|shared|ssh)[-_]?key"
    r"|signature|sig)"
)
_SECRET_FLAG = re.compile(rf"-{{1,2}}{_SECRET_WORD}", re.IGNORECASE)
_SECRET_PAIR = re.compile(
    rf"(?<![\w.-])((?:-{{1,2}})?{_SECRET_WORD}['\"]?\s*[=:]\s*)([^\s'\"&;,]+|'[^']*'|\"[^\"]*\")", re.I
)
_SECRET_FLAG_INSIDE = re.compile(
    rf"(?<!\S)(-{{1,2}}{_SECRET_WORD}\s+)([^\s'\"-][^\s'\"]*|'[^']*'|\"[^\"]*\")", re.I
)
_SECRET_SHAPES = re.compile(
    r"hf_[A-Za-z0-9]{16,}"
    r"|sk-[A-Za-z0-9_-]{16,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|xox[abprs]-[\w-]{10,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}"
    r"|AIza[\w-]{30,}"
    r"|(?<![\w-])(?=[\w-]*eyJ)[\w-]{11,}\.eyJ[\w-]{8,}\.[\w-]*"  # from a word's start: once a word
    r"|(?<=earer )[\w.~+/=-]{8,}"
    r"|(?<=asic )[A-Za-z0-9+/=]{12,}"
)
_URL_PASSWORD = re.compile(r"(?<=://)([^\s/:@]*):[^\s/@]+(?=@)")

_VARIABLE = re.compile(r"--env=([A-Za-z_]\w*)=", re.ASCII)
"""A variable that a program is told to set for another one, as `fallow run` and container tools are."""

_KERNEL_FILE = re.compile(r"(?:^|/|=)kernel-([A-Za-z0-9_.-]+?)\.json$")

_LAUNCHERS: tuple[tuple[str, "re.Pattern[str]"], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("fallow", r"(?:^|/)fallow (?:-\S+ )*run\b"),
        ("torchrun", r"(?:^|/)torchrun\b|\btorch[./]distributed[./](?:run|launch|elastic)\b"),
        ("accelerate", r"(?:^|/)accelerate(?:-launch)?\b|\baccelerate\.commands\.launch\b"),
        ("deepspeed", r"(?:^|/)deepspeed\b|\bdeepspeed\.launcher\."),
        ("horovodrun", r"(?:^|/)horovodrun\b"),
        ("mpi", r"(?:^|/)(?:mpirun|mpiexec(?:\.\w+)?|orterun|orted|prterun|prted|hydra_pmi_proxy)\b"),
        ("ray", r"(?:^|/)raylet\b|^ray::"),
        ("dask", r"(?:^|/)dask[- ](?:cuda[- ])?worker\b|\bdistributed\.cli\.dask_worker\b|\bdask_cuda\b"),
        ("srun", r"(?:^|/)srun\b"),
        ("wandb", r"\bwandb (?:agent|sweep)\b"),
    )
)

_SERVERS = re.compile(
    r"(?:^|/)(?:tritonserver|trtserver|torchserve|tensorflow_model_server|ollama|llama-server)\b"
    r"|(?:^|/)text-generation-(?:launcher|server)\b"
    r"|\bvllm serve\b|\bvllm\.entrypoints\b|^VLLM::|\bsglang\.(?:launch_server|srt)\b|\bsglang::"
    r"|^ray::ServeReplica\b|\blmdeploy serve\b"
    r"|\bbentoml serve\b|\btrtllm-serve\b|\bts\.model_service_worker\b"
)


def arguments(cmdline: bytes) -> tuple[str, ...]:
    """The arguments in ``/proc/PID/cmdline``; a title set by ``setproctitle`` is one argument."""
    text = cmdline.decode("utf-8", "replace").rstrip("\0 ")
    return tuple(text.split("\0")) if text else ()


def storable(argv: Sequence[str]) -> str | None:
    """The command line as it may be stored: secrets hidden, one line, at most COMMAND_CHARS."""
    if not argv:
        return None
    searched: list[str] = []
    left = SEARCHED_CHARS
    for argument in argv[:COMMAND_CHARS]:
        searched.append(argument[: min(ARGUMENT_CHARS, left)])
        left -= len(searched[-1])
        if left <= 0:
            break
    return bounded(" ".join(masked(searched)), COMMAND_CHARS)


def masked(argv: Sequence[str]) -> tuple[str, ...]:
    """The arguments with every secret hidden: what others may read of a process, or of a submitted job."""
    kept: list[str] = []
    before = ""
    for argument in argv:
        if _SECRET_FLAG.fullmatch(before) is not None and not argument.startswith("--"):
            kept.append(HIDDEN)
            before = ""
            continue
        given = _VARIABLE.match(f"--env={argument}" if before == "--env" else argument)
        if given is not None:
            kept.append(f"{argument[: argument.index(given[1]) + len(given[1])]}={HIDDEN}")
        else:
            kept.append(without_secrets(argument))
        before = argument
    return tuple(kept)


def without_secrets(text: str) -> str:
    """``text`` with values of secret-sounding names, known token shapes and passwords in URLs hidden."""
    text = _SECRET_PAIR.sub(rf"\1{HIDDEN}", text)
    text = _SECRET_FLAG_INSIDE.sub(rf"\1{HIDDEN}", text)
    text = _URL_PASSWORD.sub(rf"\1:{HIDDEN}", text)
    return _SECRET_SHAPES.sub(HIDDEN, text)


def bounded(text: str, chars: int) -> str:
    """``text`` as one printable line of at most ``chars``: a process names itself as it likes."""
    line = "".join(c if c.isprintable() else " " for c in text)
    return line if len(line) <= chars else line[: chars - 1] + "…"


def notebook_kernel(argv: Sequence[str]) -> str | None:
    """The id of the Jupyter kernel that this command line starts, from its connection file's name.

    ``ipykernel_launcher -f …/kernel-ID.json``, ``--f=…`` as VS Code writes it, and the kernels of other
    languages. ``unnamed`` for an ipykernel without such a file.
    """
    for argument in argv:
        if match := _KERNEL_FILE.search(argument):
            return match[1]
    if any(
        a in ("ipykernel_launcher", "ipykernel") or a.endswith("/ipykernel_launcher.py") for a in argv[:4]
    ):
        return "unnamed"
    return None


def launcher(argv: Sequence[str]) -> str | None:
    """Which launcher this command line is, by name; its children are one job."""
    line = _head(argv)
    return next((name for name, pattern in _LAUNCHERS if pattern.search(line)), None)


def is_inference_server(argv: Sequence[str]) -> bool:
    """Whether the command line is that of a known model server."""
    return _SERVERS.search(_head(argv)) is not None


def _head(argv: Sequence[str]) -> str:
    """Enough of the command line to know the program: a script's own arguments never name its launcher."""
    return " ".join(argument[:HEAD_CHARS] for argument in argv[:4])
