"""Which process heads the job that a process belongs to, decided on its line of ancestors.

Eight ranks under torchrun, a script that starts trainings, a notebook kernel with workers: one job each.
Two trainings started by hand in one shell: two jobs. So one climbs from the process towards init, and
stops below whatever merely hosts other people's work: a shell at a prompt, sshd, tmux, a container's init.

What a command line tells: the text that may be stored, the notebook kernel, the launcher, the server.

Command lines are readable by every user of a machine, but a store lives longer than a process: whatever
looks like a secret is replaced before anything else is done with the text.

Which frameworks a process runs, by the file names of the libraries it has mapped.

A library in a process's map says that it was imported, not that it was used; the ranking says which of
several is likeliest the one that drives the GPU. The names were gathered from the projects' own wheels.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from collector.model import JobKind
from collector.procfs.proc_files import LARGEST_BYTES

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
    rest = SEARCHED_CHARS
    for argument in argv[:COMMAND_CHARS]:
        searched.append(argument[: min(ARGUMENT_CHARS, rest)])
        rest -= len(searched[-1])
        if rest <= 0:
            break
    return bounded(" ".join(masked(searched)), COMMAND_CHARS)


def masked(argv: Sequence[str]) -> tuple[str, ...]:
    """The arguments with every secret hidden: what others may read of a process, or of a submitted job."""
    shown: list[str] = []
    before = ""
    for argument in argv:
        if _SECRET_FLAG.fullmatch(before) is not None and not argument.startswith("--"):
            shown.append(HIDDEN)
            before = ""
            continue
        match = _VARIABLE.match(f"--env={argument}" if before == "--env" else argument)
        if match is not None:
            shown.append(f"{argument[: argument.index(match[1]) + len(match[1])]}={HIDDEN}")
        else:
            shown.append(without_secrets(argument))
        before = argument
    return tuple(shown)


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


MOST_LINES = 65_536
"""Mappings of one process that are looked at: Linux allows it 65,530 (vm.max_map_count), more by choice."""

MOST_LIBRARIES = 4096
"""Different ones of one process: a training with PyTorch, TensorFlow and JAX maps under 1,000."""

FOLDERS = 3
"""So many folders above a library say what it belongs to: ``cupy_backends/cuda/libs/nvrtc.so``."""

_JAX_DEVICE = re.compile(rb"/(?:jax_plugins/|[^/]*xla_cuda[^/]*plugin)")
"""JAX's own device plugin: loaded when JAX starts its GPU backend, and by nothing else."""

_RANKED: tuple[tuple[str, "re.Pattern[bytes]"], ...] = (
    ("TensorFlow", re.compile(rb"/libtensorflow(?:_framework|_cc)?\.so|/_pywrap_tensorflow")),
    ("PyTorch", re.compile(rb"/(?:libtorch_(?:cpu|cuda)[^/]*|libc10(?:_cuda)?|libtorch)\.so")),
    ("JAX", re.compile(rb"/jaxlib/[^\n]*\.so|/libjax_common[^/]*\.so|/[^/]*xla_cuda[^/]*\.so")),
    ("MXNet", re.compile(rb"/libmxnet\.so")),
    ("PaddlePaddle", re.compile(rb"/(?:libpaddle|libphi[^/]*)\.so")),
    ("RAPIDS", re.compile(rb"/(?:libcudf|libcuml|libcugraph|librmm)(?:\+\+)?\.so")),
    ("CuPy", re.compile(rb"/cupy(?:_backends)?/[^\n]*\.so")),
    ("Triton Inference Server", re.compile(rb"/libtritonserver\.so")),
    ("ONNX Runtime", re.compile(rb"/(?:libonnxruntime[^/]*|onnxruntime_pybind11_state[^/]*)\.so")),
    ("TensorRT", re.compile(rb"/libnvinfer[^/]*\.so")),
    ("llama.cpp", re.compile(rb"/lib(?:ggml-cuda|llama)\.so")),
    ("XGBoost", re.compile(rb"/libxgboost\.so")),
    ("Numba", re.compile(rb"/numba/[^\n]*\.so")),
    ("GROMACS", re.compile(rb"/libgromacs[^/]*\.so")),
    ("LAMMPS", re.compile(rb"/liblammps[^/]*\.so")),
    ("OpenMM", re.compile(rb"/libOpenMM(?:CUDA)?\.so")),
    ("NCCL", re.compile(rb"/libnccl\.so")),
)

_DRIVER = re.compile(rb"/libcuda\.so(?:\.[0-9.]+)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """What a process has mapped: its frameworks, likeliest first, and the driver's libcuda.so."""

    frameworks: tuple[str, ...]
    cuda: bool | None
    """``None`` where it was not found and not everything was looked at."""
    is_whole: bool = True
    """Whether everything was looked at; what lies beyond the bounds is unknown."""


def mapped(maps: bytes) -> Mapped:
    """The frameworks whose libraries stand in ``/proc/PID/maps``.

    TensorFlow comes before JAX, because importing it maps jaxlib too, and ``jax_cuda12_plugin`` where that
    is installed, but not the XLA plugin that JAX loads to use a GPU (seen with TensorFlow 2.21 and JAX
    0.10.2, 21 November 2026): with that one mapped, JAX comes first. A data file in a folder called
    ``jaxlib`` is not JAX: only shared libraries count.
    """
    libraries, is_whole = _libraries(maps)
    joined = b"\n".join(sorted(libraries))
    frameworks = [name for name, pattern in _RANKED if pattern.search(joined)]
    if "JAX" in frameworks and _JAX_DEVICE.search(joined):
        frameworks.remove("JAX")
        frameworks.insert(0, "JAX")
    cuda = any(_DRIVER.search(library) for library in libraries)
    return Mapped(frameworks=tuple(frameworks), cuda=cuda if cuda or is_whole else None, is_whole=is_whole)


def _libraries(maps: bytes) -> tuple[set[bytes], bool]:
    """The shared libraries, each with the folders right above it, and whether these are all.

    No search begins anew at each ``/``: a process can map a path of thousands of folders, many times.
    """
    libraries: set[bytes] = set()
    lines = maps.split(b"\n", MOST_LINES)
    for line in lines[:MOST_LINES]:
        parts = line.removesuffix(b" (deleted)").rsplit(b"/", FOLDERS + 1)
        if len(parts) == 1 or not _is_library(parts[-1]):
            continue
        if len(libraries) == MOST_LIBRARIES:
            return libraries, False
        libraries.add(b"/" + b"/".join(parts[1:]))
    is_whole = (len(lines) <= MOST_LINES or not lines[MOST_LINES]) and len(maps) < LARGEST_BYTES
    return libraries, is_whole


def _is_library(name: bytes) -> bool:
    """Whether a file is called ``….so``, or that and a version."""
    _, so, version = name.rpartition(b".so")
    return bool(so) and (not version or (version[:1] == b"." and not version.strip(b".0123456789")))
