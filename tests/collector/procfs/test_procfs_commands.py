"""Command lines: what may be kept, and what they say about notebooks, launchers and servers."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.procfs.environment import ALLOWED, MOST_BYTES, allowed_environment
from collector.procfs.job_root import (
    COMMAND_CHARS,
    arguments,
    is_inference_server,
    launcher,
    masked,
    notebook_kernel,
    storable,
    without_secrets,
)

SECRET = "s3cr3t-Value_9"


@pytest.mark.parametrize(
    "argv",
    [
        ("python", "t.py", f"--token={SECRET}"),
        ("python", "t.py", "--token", SECRET),
        ("python", "t.py", "--hf-token", SECRET),
        ("python", "t.py", "--hf_token", SECRET),
        ("python", "t.py", "-password", SECRET),
        ("python", "t.py", "--pass", SECRET),
        ("python", "t.py", f"--db-pass={SECRET}"),
        ("env", f"PGPASS={SECRET}", "python", "t.py"),
        ("python", "t.py", f"--jwt={SECRET}"),
        ("python", "t.py", "--bearer", SECRET),
        ("env", f"TOKEN1={SECRET}", "python", "t.py"),
        ("python", "t.py", f"--api-key={SECRET}"),
        ("python", "t.py", "--openai_api_key", SECRET),
        ("python", "t.py", "--aws-secret-access-key", SECRET),
        ("python", "t.py", "--secret", f"-{SECRET}"),
        ("python", "t.py", "--password", f"two words {SECRET}"),
        ("python", "t.py", f"wandb.api_key={SECRET}"),
        ("env", f"WANDB_API_KEY={SECRET}", "python", "t.py"),
        ("bash", "-c", f"HF_TOKEN={SECRET} python t.py"),
        ("bash", "-c", f"export MY_SECRET='{SECRET}'; python t.py"),
        ("bash", "-c", f"python t.py --password {SECRET} --lr 1"),
        ("python", "-c", f"login(token='{SECRET}')"),
        ("python", "t.py", f"postgresql://ann:{SECRET}@db/runs"),
        ("curl", "-H", f"Authorization: Bearer {SECRET}"),
        ("python", "t.py", f"hf_{'Ab1' * 10}{SECRET}"),
        ("python", "t.py", '{"lr": 1, "api_key": "' + SECRET + '"}'),
        ("curl", f"https://store/ckpt.pt?X-Amz-Signature={SECRET}&x=1"),
        ("curl", f"https://store/ckpt.pt?se=2026&sig={SECRET}"),
        ("solver", "--license-key", SECRET),
        ("fallow", "run", "--env", f"WANDB={SECRET}", "--", "python", "t.py"),
        ("docker", "run", f"--env=PLAIN={SECRET}", "image"),
    ],
)
def test_secrets_in_a_command_line_are_not_kept(argv: tuple[str, ...]) -> None:
    kept = storable(argv)
    assert kept is not None
    assert SECRET not in kept
    assert "***" in kept


def test_only_the_values_of_variables_are_hidden() -> None:
    argv = ("fallow", "run", "--env", "A_1=x y", "--env=B=", "--env", "HOME", "--", "conda", "--env", "torch")
    assert masked(argv) == (*argv[:3], "A_1=***", "--env=B=***", *argv[5:])


def test_a_command_without_secrets_is_shown_as_it_is() -> None:
    argv = ("bash", "-c", "python t.py --lr 1e-3\necho done", "x" * 9_000)
    assert masked(argv) == argv


@pytest.mark.parametrize(
    "value",
    [
        "hf_" + "abcDEF12" * 4,
        "sk-proj-" + "abcDEF12" * 4,
        "ghp_" + "abcDEF12" * 5,
        "AKIA" + "ABCDEFGH12345678",
        "glpat-" + "abcDEF12" * 3,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    ],
)
def test_known_token_shapes_are_hidden_wherever_they_stand(value: str) -> None:
    kept = storable(("python", "t.py", value, f"x{value[:0]}={value}"))
    assert kept is not None
    assert value not in kept


@pytest.mark.parametrize(
    "argument",
    [
        "--max-tokens=512",
        "--tokenizer",
        "--num_tokens",
        "--keyboard",
        "--monkey=3",
        "--author=ann",
        "--passes=2",
    ],
)
def test_ordinary_training_flags_are_kept(argument: str) -> None:
    assert storable(("python", "t.py", argument, "gpt2")) == f"python t.py {argument} gpt2"


@given(
    st.text(min_size=6, max_size=40).filter(lambda s: s.strip() == s and "***" not in s and len(set(s)) > 3)
)
def test_no_value_of_a_password_flag_survives(secret: str) -> None:
    kept = storable(("prog", "--password", f"Q{secret}"))
    assert kept == "prog --password ***"


def test_a_command_line_is_bounded_and_one_printable_line() -> None:
    kept = storable(("python", "a\x1b[31m\nb", "x" * 5000))
    assert kept is not None
    assert len(kept) == COMMAND_CHARS
    assert kept.endswith("…")
    assert kept.isprintable()


@pytest.mark.parametrize("piece", ["a-", "token", "-", "key_", "://a:", "eyJ", "--password "])
def test_a_megabyte_of_anything_is_bounded_in_reasonable_steps(piece: str) -> None:
    kept = storable(("bash", "-c", piece * (1_000_000 // len(piece)), *("x",) * 100_000))
    assert kept is not None
    assert len(kept) <= COMMAND_CHARS


def test_a_secret_cut_by_the_bound_is_hidden_first() -> None:
    kept = storable(("python", "x" * (COMMAND_CHARS - 20), f"--token={SECRET * 9}"))
    assert kept is not None
    assert SECRET[:4] not in kept


def test_a_title_set_by_the_process_is_one_argument() -> None:
    assert arguments(b"ray::train()\0\0\0\0") == ("ray::train()",)
    assert arguments(b"") == ()
    assert arguments(b"python\0\xff\xfe\0") == ("python", "��")
    assert storable(()) is None


@pytest.mark.parametrize(
    ("argv", "kernel"),
    [
        (("python", "-m", "ipykernel_launcher", "-f", "/run/user/1/jupyter/kernel-3f2a-99.json"), "3f2a-99"),
        (
            (
                "python",
                "-m",
                "ipykernel_launcher",
                "--f=/home/a/.local/share/jupyter/runtime/kernel-v2-12x.json",
            ),
            "v2-12x",
        ),
        (("R", "--slave", "-e", "IRkernel::main()", "--args", "/run/kernel-77.json"), "77"),
        (("python", "-m", "ipykernel"), "unnamed"),
        (("python", "train.py", "--config", "kernel.json"), None),
        (("python", "train.py", "--name=my-kernel-9.json.bak"), None),
        (("jupyter-lab",), None),
    ],
)
def test_notebook_kernel_is_known_by_its_connection_file(argv: tuple[str, ...], kernel: str | None) -> None:
    assert notebook_kernel(argv) == kernel


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (("/env/bin/python", "/env/bin/torchrun", "--nproc-per-node=8", "t.py"), "torchrun"),
        (("python", "-m", "torch.distributed.run", "t.py"), "torchrun"),
        (("python", "-m", "torch.distributed.launch", "t.py"), "torchrun"),
        (("python", "/env/bin/accelerate", "launch", "t.py"), "accelerate"),
        (("python", "/env/bin/deepspeed", "t.py"), "deepspeed"),
        (("/usr/bin/mpirun", "-np", "8", "./app"), "mpi"),
        (("mpiexec.hydra", "-n", "2", "app"), "mpi"),
        (("/ray/core/src/ray/raylet/raylet", "--x"), "ray"),
        (("ray::train()",), "ray"),
        (("python", "/env/bin/fallow", "run", "t.py"), "fallow"),
        (("python", "train.py"), None),
        (("python", "train.py", "--out", "a", "--from", "/data/torchrun"), None),
    ],
)
def test_launchers_are_known_by_their_command_line(argv: tuple[str, ...], name: str | None) -> None:
    assert launcher(argv) == name


@pytest.mark.parametrize(
    ("argv", "serves"),
    [
        (("python", "-m", "vllm.entrypoints.openai.api_server"), True),
        (("python", "/env/bin/vllm", "serve", "m"), True),
        (("VLLM::EngineCore",), True),
        (("tritonserver", "--model-repository=/m"), True),
        (("/usr/bin/ollama", "runner"), True),
        (("python", "-m", "sglang.launch_server"), True),
        (("python", "train_vllm.py"), False),
    ],
)
def test_model_servers_are_known_by_their_command_line(argv: tuple[str, ...], serves: bool) -> None:
    assert is_inference_server(argv) is serves


def test_only_allow_listed_variables_are_kept() -> None:
    block = b"\0".join(
        [
            b"HOME=/home/ann",
            b"CUDA_VISIBLE_DEVICES=0,1",
            b"AWS_SECRET_ACCESS_KEY=abc",
            b"WANDB_API_KEY=abc",
            b"WANDB_RUN_ID=3k2",
            b"XLA_PYTHON_CLIENT_PREALLOCATE=false",
            b"FALLOW_JOB=a1",
            b"FALLOW_TOKEN=abc",
            b"FALLOW_DASHBOARD_CODE=abc",
            b"RANK=3",
            b"RANK=4",
            b"broken",
            b"CUDA_VISIBLE_DEVICES_BACKUP=1",
            b"",
        ]
    )
    assert allowed_environment(block) == (
        ("CUDA_VISIBLE_DEVICES", "0,1"),
        ("FALLOW_JOB", "a1"),
        ("RANK", "3"),
        ("WANDB_RUN_ID", "3k2"),
        ("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),
    )


def test_run_ids_are_kept_and_what_signs_in_is_not() -> None:
    block = b"\0".join(
        [
            b"WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567",
            b"WANDB_RUN_ID=3k2",
            b"WANDB_BASE_URL=https://token-in-front@wandb.example.org/?api_key=abcdef#x",
            b"MLFLOW_TRACKING_URI=postgresql://ann:se:cret@db.example.org:5432/mlflow",
            b"MLFLOW_TRACKING_PASSWORD=hunter2",
            b"MLFLOW_TRACKING_TOKEN=abc",
            b"MLFLOW_RUN_ID=77",
            b"LSB_JOBID=9",
            b"COMET_API_KEY=abc",
        ]
    )
    assert allowed_environment(block) == (
        ("LSB_JOBID", "9"),
        ("MLFLOW_RUN_ID", "77"),
        ("MLFLOW_TRACKING_URI", "postgresql://db.example.org:5432/mlflow"),
        ("WANDB_BASE_URL", "https://wandb.example.org/"),
        ("WANDB_RUN_ID", "3k2"),
    )


@pytest.mark.parametrize("address", ["https://ann:pa/ss@host/", "https://a@b@host/", "https://host/x@y"])
def test_nothing_is_kept_of_an_address_in_which_a_sign_in_may_be_left(address: str) -> None:
    assert allowed_environment(f"MLFLOW_TRACKING_URI={address}".encode()) == (("MLFLOW_TRACKING_URI", ""),)


@given(st.sampled_from(["WANDB_API_KEY", "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_PASSWORD"]), st.text())
def test_no_key_of_a_tracker_is_ever_kept(name: str, value: str) -> None:
    assert allowed_environment(f"{name}={value}".encode("utf-8", "replace").replace(b"\0", b"")) == ()


def test_the_page_for_users_lists_exactly_what_is_kept() -> None:
    page = (Path(__file__).parents[3] / "docs" / "who-and-what.md").read_text()
    table = page[page.index("| for | variables |") :].split("\n\n")[0]
    assert set(re.findall(r"`([A-Z_*]+)`", table)) == ALLOWED


@given(st.binary(max_size=300))
def test_any_command_line_is_survived(cmdline: bytes) -> None:
    argv = arguments(cmdline)
    kept = storable(argv)
    assert kept is None or kept.isprintable()
    notebook_kernel(argv), launcher(argv), is_inference_server(argv)


def test_an_empty_value_is_kept_because_it_hides_every_gpu() -> None:
    assert allowed_environment(b"CUDA_VISIBLE_DEVICES=\0") == (("CUDA_VISIBLE_DEVICES", ""),)


def test_a_value_is_bounded_and_printable() -> None:
    ((_, value),) = allowed_environment(b"SLURM_JOB_NAME=" + b"a\n" * 5000)
    assert len(value) == 1024
    assert value.isprintable()


@given(st.binary(max_size=300))
def test_any_block_of_bytes_is_survived(block: bytes) -> None:
    assert all(value.isprintable() for _, value in allowed_environment(block))


def test_a_list_of_all_mig_instances_of_a_machine_is_kept_whole() -> None:
    """What is cut off it nobody would hold, and it would look empty while somebody is on it."""
    devices = ",".join(f"MIG-{number:08x}-0000-4000-8000-{number:012x}" for number in range(112))
    block = f"CUDA_VISIBLE_DEVICES={devices}\0".encode()
    assert allowed_environment(block) == (("CUDA_VISIBLE_DEVICES", devices),)


@pytest.mark.parametrize(
    "piece",
    [
        "eyJ",
        "eyJ-",
        "eyJaaaaaaaa.",
        "hf_",
        "sk-",
        "xoxb-",
        "earer ",
        "token",
        "token ",
        "-token-",
        "a.",
        "--x-",
        "token='",
        '--token "',
        "://",
        "://a:",
        ":",
        "AKIA",
        " ",
        "glpat-",
    ],
)
def test_masking_reads_a_text_once_however_it_repeats_itself(piece: str) -> None:
    """Anew from each repetition took 0.1 s for 8,000 characters, and would take minutes for these."""
    assert without_secrets(piece * (300_000 // len(piece))) is not None


def test_a_jwt_is_hidden_behind_any_word() -> None:
    jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-def"
    assert without_secrets(f"run {jwt} end") == "run *** end"
    assert "eyJ" not in without_secrets(f"run --x=1,id_{jwt}/{jwt}")


def test_a_command_of_megabytes_is_kept_by_its_beginning() -> None:
    kept = storable(["python", *["/fallow -a" * 20_000] * 400])
    assert kept is not None and len(kept) == COMMAND_CHARS


def test_a_launcher_is_looked_for_at_the_head_alone() -> None:
    """Anew from each repetition took minutes for these."""
    assert launcher(["python", "/fallow -" * 100_000]) is None
    assert not is_inference_server(["python", "/x" * 500_000])


def test_a_process_has_no_more_variables_than_are_listed() -> None:
    block = b"\0".join(
        b"%sX%d=%s" % (start, i, b"x" * 1_000)
        for i in range(500)
        for start in (b"FALLOW_", b"XLA_PYTHON_CLIENT_")
    )
    assert allowed_environment(block + b"\0FALLOW_JOB=a1") == (("FALLOW_JOB", "a1"),)
    assert len(ALLOWED) <= 64


def test_the_longest_variables_are_left_out_where_all_are_too_long() -> None:
    """What ties a process to a job is short, and stays."""
    names = sorted(ALLOWED - {"FALLOW_JOB", "SLURM_JOB_ID"})
    said = dict.fromkeys(names, "é" * 20000) | {"FALLOW_JOB": "a1", "SLURM_JOB_ID": "7"}
    kept = dict(allowed_environment("\0".join(f"{name}={value}" for name, value in said.items()).encode()))
    assert kept["FALLOW_JOB"] == "a1" and kept["SLURM_JOB_ID"] == "7"
    assert sum(len(name) + len(value.encode()) for name, value in kept.items()) <= MOST_BYTES
