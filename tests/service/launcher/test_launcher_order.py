"""What may be asked of ``fallow run``, and with which words nonsense is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.jobs.model import Elasticity
from service.cli.parser import parse
from service.errors import FallowError
from service.launcher import order as orders
from service.launcher.order import BadOrder, Order
from service.launcher.world import Workers

pytestmark = pytest.mark.quick


def ordered(*words: str, **environment: str) -> Order:
    flags = parse(["run", *words]).flags
    return orders.read(
        flags,
        user="ann",
        uid=1000,
        node="gpu-07",
        folder="/home/ann",
        nonce="n" * 32,
        project="ann",
        environment=environment,
    )


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("1", (1, 1, 1.0)),
        ("1-4", (1, 4, 1.0)),
        ("0.5", (1, 1, 0.5)),
        (".25", (1, 1, 0.25)),
        ("2x0.5", (2, 2, 0.5)),
    ],
)
def test_gpus_are_read_as_people_write_them(text: str, gpus: tuple[int, int, float]) -> None:
    assert orders.read_gpus(text) == gpus


@pytest.mark.parametrize(
    ("words", "topology"),
    [
        (["--gpus", "2", "--", "python", "t.py"], "node"),  # one process: it can use those of one machine
        (["--gpus", "1", "--", "python", "t.py"], "any"),
        (["--gpus", "2", "--workers", "torchrun", "--", "python", "t.py"], "any"),
        (["--gpus", "2-4", "--elastic", "--", "python", "t.py"], "any"),
        (["--gpus", "2-4", "--elastic", "--topology", "node", "--", "python", "t.py"], "node"),
        (["--gpus", "2", "--topology", "prefer-node", "--", "python", "t.py"], "prefer-node"),
    ],
)
def test_gpus_of_one_machine_are_asked_for_or_follow_from_one_process(
    words: list[str], topology: str
) -> None:
    assert ordered(*words).submission.topology == topology


def test_jobs_that_it_starts_after_are_named_by_number_or_id() -> None:
    submission = ordered("--after", "7", "--after", "fallow:9", "--after", "7", "--", "true").submission
    assert submission.after == ("fallow:7", "fallow:9")
    for wrong in ("slurm:7", "fallow:x", "", "-1"):
        with pytest.raises(BadOrder, match="for example 7"):
            ordered(f"--after={wrong}", "--", "true")


@pytest.mark.parametrize(
    "text", ["0", "4-1", "0-2", "1.5", "0.0", "2x1", "0x0.5", "two", "", "-1", "1-", "99999", "1e3"]
)
def test_gpus_that_make_no_sense_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadOrder, match=r"example|more than"):
        orders.read_gpus(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("12GiB", 12 * 2**30),
        ("12G", 12 * 2**30),
        ("12 GB", 12 * 10**9),
        ("1.5GiB", 3 * 2**29),
        ("800m", 800 * 2**20),
    ],
)
def test_memory_is_read_as_people_write_it(text: str, size: int) -> None:
    assert orders.read_memory(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "12XB", "-1GiB", "0", "0.0001B", "12 GiB each"])
def test_memory_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(BadOrder, match="12GiB"):
        orders.read_memory(text)


@given(st.text(max_size=12))
def test_reading_numbers_never_fails_but_as_an_order(text: str) -> None:
    for read in (orders.read_gpus, orders.read_memory, orders.read_signal):
        try:
            read(text)
        except BadOrder as refused:
            assert refused.args[0].isprintable()


@pytest.mark.parametrize(
    "words",
    [
        ["--name", "a\nb", "--", "true"],
        ["--name", "a\x1b[31m", "--", "true"],
        ["--name", " a", "--", "true"],
        ["--name", "a\u202eb", "--", "true"],
        ["--name", "x" * 101, "--", "true"],
        ["--name", "-a", "--", "true"],
        ["--name", "a\u3164b", "--", "true"],
        ["--project", "x" * 65, "--", "true"],
        ["--project", "a b", "--", "true"],
        ["--project", "a\\b", "--", "true"],
        ["--gpu-model", "x" * 65, "--", "true"],
        ["--project", "", "--name", "", "--project", "a\tb", "--", "true"],
        ["--env", "CUDA_VISIBLE_DEVICES=0", "--", "true"],
        ["--env", "A", "--", "true"],
        ["--env", "1A=x", "--", "true"],
        ["--env", "A=\x1b", "--", "true"],
        ["--env", "LD-X=1", "--", "true"],
        ["--checkpoint-signal", "KILL", "--", "true"],
        ["--checkpoint-signal", "9", "--", "true"],
        ["--preemptible", "--", "true"],
        ["--elastic", "--checkpoint-signal", "USR1", "--", "python", "t.py"],
        ["--elastic", "--workers", "torchrun", "--", "python", "t.py"],
        ["--elastic", "--", "bash", "run.sh"],
        ["--elastic", "--", "python", "-c", "pass"],
        ["--gpus", "0.5", "--workers", "torchrun", "--", "true"],
        ["--detach", "--interactive", "--", "true"],
        ["--restarts", "-1", "--", "true"],
        ["--grace", "soon", "--", "true"],
        ["--time-limit", "0s", "--", "true"],
        [
            "--",
        ],
        [],
        ["--", "true\0"],
        ["python", "train.py", "--epochs", "3"],
    ],
    ids=lambda words: " ".join(words).encode("unicode_escape").decode()[:40],
)
def test_nonsense_is_refused_in_a_sentence(words: list[str]) -> None:
    with pytest.raises(FallowError) as refused:
        ordered(*words)
    assert str(refused.value).isprintable()


def test_a_refused_name_is_told_where_it_was_given_what_is_wrong_and_what_would_do() -> None:
    with pytest.raises(BadOrder, match=r"^--name: a name cannot hold '\*' \(U\+002A, asterisk\); 1 to 100 "):
        ordered("--name", "a*", "--", "true")
    with pytest.raises(BadOrder, match=r"^--project: a project has 64 characters at most, not 65; 1 to 64 "):
        ordered("--project", "x" * 65, "--", "true")
    flags = parse(["run", "--", "true"]).flags
    with pytest.raises(BadOrder, match=r"^\$FALLOW_PROJECT: a project cannot hold '/'"):
        orders.read(flags, user="ann", uid=1, node="n", folder="/", nonce="n", project="a/b", environment={})


def test_a_variable_that_is_only_named_takes_its_value_from_whoever_asks() -> None:
    order = ordered("--env", "HF_TOKEN", "--env", "MODE=x", "--", "true", HF_TOKEN="hf_secret", HOME="/h")
    assert order.environment == {"HF_TOKEN": "hf_secret", "MODE": "x"}
    assert "hf_secret" not in repr(order.submission), "the service is never told"
    with pytest.raises(BadOrder, match=r"^--env HF_TOKEN: it is not set here; export it first"):
        ordered("--env", "HF_TOKEN", "--", "true")
    with pytest.raises(BadOrder, match="the lease says which GPUs"):
        ordered("--env", "CUDA_VISIBLE_DEVICES", "--", "true", CUDA_VISIBLE_DEVICES="0")


def test_who_types_a_secret_is_told_that_others_can_read_it() -> None:
    assert orders.shown_to_all(["python", "t.py"], ["HF_TOKEN", "MODE=x"]) is None
    assert "HF_TOKEN" in str(orders.shown_to_all(["python", "t.py"], ["HF_TOKEN=hf_secret"]))
    found = str(orders.shown_to_all(["python", "t.py", "--token", "hush"], []))
    assert "hold a secret" in found and "hush" not in found


def test_names_of_all_languages_are_taken_and_kept_composed() -> None:
    asked = ordered("--name", "हिन्दी २", "--project", "re\u0301seau", "--", "true").submission
    assert (asked.name, asked.project) == ("हिन्दी २", "r\u00e9seau")


def test_a_job_says_how_it_can_be_moved_and_thereby_that_it_may_be() -> None:
    rigid, saves = (
        ordered("--", "true").submission,
        ordered("--checkpoint-signal", "usr1", "--", "true").submission,
    )
    assert (rigid.mobility, rigid.preemptible) == (Elasticity.RIGID, False)
    assert (saves.mobility, saves.preemptible, saves.checkpoint_signal) == (
        Elasticity.CHECKPOINTS,
        True,
        "USR1",
    )
    kept = ordered("--checkpoint-signal", "USR1", "--no-preemptible", "--", "true").submission
    assert (kept.mobility, kept.preemptible) == (Elasticity.CHECKPOINTS, False)


def test_what_stands_after_the_dashes_is_the_command_whatever_it_looks_like() -> None:
    asked = ordered(
        "--gpus", "2", "--workers", "torchrun", "--", "python", "t.py", "--gpus", "9", "--", "-x", ""
    )
    assert asked.argv == ("python", "t.py", "--gpus", "9", "--", "-x", "")
    assert (asked.submission.min_gpus, asked.workers) == (2, Workers.TORCHRUN)


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        (["python", "t.py", "--x"], (("python",), (), ("t.py", "--x"))),
        (
            ["/opt/bin/python3.11", "-u", "-X", "dev", "t.py"],
            (("/opt/bin/python3.11", "-u", "-X", "dev"), (), ("t.py",)),
        ),
        (["python3", "-m", "pkg.train"], (("python3",), (), ("-m", "pkg.train"))),
        (
            ["python", "-m", "fallow.controller", "--spare", "1", "--", "t.py", "--", "y"],
            (("python",), ("--spare", "1"), ("t.py", "--", "y")),
        ),
    ],
)
def test_an_elastic_command_is_taken_apart(argv: list[str], parts: tuple[tuple[str, ...], ...]) -> None:
    assert orders.elastic_parts(argv) == parts


def test_a_command_that_starts_a_controller_is_elastic_without_being_told() -> None:
    argv = ["python", "-m", "fallow.controller", "--spare", "1", "--", "t.py"]
    assert ordered("--", *argv).submission.mobility is Elasticity.ELASTIC
    assert ordered("--", "echo", "fallow.controller").submission.mobility is Elasticity.RIGID


def test_half_a_gpu_is_shared_and_a_whole_one_only_when_asked() -> None:
    assert ordered("--gpus", "0.5", "--", "true").submission.may_share
    assert not ordered("--", "true").submission.may_share
    assert ordered("--share-ok", "--", "true").submission.may_share
