"""Who heads a job, on lines of ancestors as they are found on real machines."""

import pytest

from collector.model import JobKind
from collector.procfs.job_root import Kin, family, job_kind

ANN, BOB, ROOT = 1000, 1001, 0


def line(*people: tuple[str, tuple[str, ...], int]) -> list[Kin]:
    """From the process up; each is (name, argv, uid), pids count down to 2."""
    pids = list(range(len(people) + 1, 1, -1))
    return [
        Kin(pid=pid, started_ms=pid, parent_pid=pid - 1, uid=uid, name=name, argv=argv)
        for pid, (name, argv, uid) in zip(pids, people, strict=True)
    ]


TRAIN = ("python", ("python", "train.py"), ANN)
PROMPT = ("bash", ("-bash",), ANN)
SSHD = ("sshd", ("sshd: ann@pts/3",), ANN)
KERNEL = ("python", ("python", "-m", "ipykernel_launcher", "-f", "/run/kernel-ab-1.json"), ANN)


def head_of(*people: tuple[str, tuple[str, ...], int]) -> str:
    ancestors = line(*people)
    head = family(ancestors).head
    return f"{head.name} {len(ancestors) + 1 - head.pid}"


def test_a_training_from_a_prompt_heads_itself() -> None:
    assert head_of(TRAIN, PROMPT, SSHD) == "python 0"


@pytest.mark.parametrize(
    "shell",
    [
        ("bash", ("bash",), ANN),
        ("zsh", ("zsh", "-il"), ANN),
        ("bash", ("/bin/bash", "--init-file", "/code/shellIntegration-bash.sh"), ANN),
        ("fish", ("fish", "--login"), ANN),
    ],
)
def test_a_shell_at_a_prompt_is_nobody_s_head(shell: tuple[str, tuple[str, ...], int]) -> None:
    assert head_of(TRAIN, shell, ("tmux: server", ("tmux",), ANN)) == "python 0"


def test_ranks_belong_to_their_launcher() -> None:
    found = family(line(TRAIN, ("torchrun", ("python", "/env/bin/torchrun", "train.py"), ANN), PROMPT))
    assert (found.head.name, found.launcher) == ("torchrun", "torchrun")


def test_a_script_heads_all_it_starts() -> None:
    script = ("bash", ("bash", "run_all.sh"), ANN)
    assert head_of(TRAIN, script, PROMPT) == "bash 1"
    assert head_of(TRAIN, ("sh", ("sh", "-c", "python train.py"), ANN), PROMPT) == "sh 1"


def test_a_worker_of_a_notebook_belongs_to_the_kernel() -> None:
    shell = ("sh", ("sh", "-c", "python train.py"), ANN)
    found = family(line(TRAIN, shell, KERNEL, ("jupyter-lab", ("jupyter-lab",), ANN)))
    assert (found.head.pid, found.notebook) == (3, "ab-1")


def test_two_kernels_of_one_server_are_two_jobs() -> None:
    server = ("jupyter-lab", ("python", "/env/bin/jupyter-lab"), ANN)
    assert head_of(KERNEL, server) == "python 0"
    assert head_of(TRAIN, ("bash", ("/bin/bash", "-l"), ANN), server) == "python 0"


def test_another_user_s_process_is_never_the_head() -> None:
    assert head_of(TRAIN, ("bash", ("bash", "job.sh"), BOB)) == "python 0"
    assert head_of(TRAIN, ("daemon", ("daemon",), ROOT)) == "python 0"


@pytest.mark.parametrize(
    "host", ["containerd-shim", "tini", "slurmstepd", "systemd", "conmon", "cron", "tsp"]
)
def test_what_hosts_everybody_s_work_is_nobody_s_head(host: str) -> None:
    assert head_of(TRAIN, (host, (host, "-x"), ANN)) == "python 0"


def test_init_is_nobody_s_head() -> None:
    init = Kin(pid=1, started_ms=0, parent_pid=0, uid=ANN, name="python", argv=("python", "main.py"))
    child = Kin(pid=9, started_ms=9, parent_pid=1, uid=ANN, name="python", argv=("python", "t.py"))
    assert family([child, init]).head is child


def test_a_server_s_workers_are_inference() -> None:
    server = ("vllm", ("python", "/env/bin/vllm", "serve", "m"), ANN)
    found = family(line(("VLLM::EngineCor", ("python",), ANN), server, PROMPT))
    assert job_kind(found, at_terminal=False) is JobKind.INFERENCE


def test_kind_by_who_waits() -> None:
    plain, notebook = family(line(TRAIN, PROMPT)), family(line(KERNEL))
    assert job_kind(plain, at_terminal=True) is JobKind.INTERACTIVE
    assert job_kind(plain, at_terminal=False) is JobKind.BATCH
    assert job_kind(notebook, at_terminal=False) is JobKind.INTERACTIVE
