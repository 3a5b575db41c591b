"""The form's command is what a shell reads back as what was chosen, or says what is missing."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.cli.parser import parse
from service.pages.parts.submit_form import Unclear, Wish, command, composed

plain_text = st.from_regex(r"([^\W_][\w .:+@=,()#-]{0,20})?", fullmatch=True)


@given(project=plain_text, name=plain_text, low=st.integers(1, 8), more=st.integers(0, 8))
def test_a_shell_reads_back_what_was_chosen(project: str, name: str, low: int, more: int) -> None:
    line = composed(
        Wish(
            command="python train.py",
            project=project,
            name=name,
            min_gpus=low,
            max_gpus=low + more,
            elastic=True,
        )
    )
    assert isinstance(line, str)
    words = shlex.split(line)
    assert words[:2] == ["fallow", "run"]
    assert words[words.index("--") + 1 :] == ["python", "train.py"] or "--" in (project, name)
    if project:
        assert words[words.index("--project") + 1] == project
    size = words[words.index("--gpus", 4 if project else 2) + 1]
    assert size == (f"{low}-{low + more}" if more else f"{low}")


def test_everything_chosen_is_in_the_line_and_defaults_are_not() -> None:
    assert composed(Wish(command=" python train.py ")) == "fallow run --gpus 1 -- python train.py"
    full = Wish(
        command="python train.py --lr 0.1",
        project="vision",
        name="my run",
        share=0.5,
        memory="12 GiB",
        priority=-3,
        interactive=True,
        preemptible=True,
        elastic=True,
        signal="USR1",
        restarts=2,
        detach=True,
    )
    assert composed(full) == (
        "fallow run --project vision --gpus 0.5 --memory 12GiB --name 'my run' --priority -3 --interactive "
        "--preemptible --elastic --checkpoint-signal USR1 --restarts 2 --detach -- python train.py --lr 0.1"
    )


@pytest.mark.parametrize(
    "wish",
    [
        Wish(command="python train.py"),
        Wish(command="python train.py", project="v", min_gpus=1, max_gpus=4, elastic=True, memory="12 GiB"),
        Wish(command="x", share=0.5, priority=-3, interactive=True, detach=True, name="n"),
        Wish(command="x", max_gpus=2, signal="USR1", restarts=2, preemptible=True),
    ],
)
def test_the_line_is_one_that_the_verb_reads(wish: Wish) -> None:
    line = composed(wish)
    assert isinstance(line, str)
    flags = parse(shlex.split(line)[1:]).flags
    assert flags.command[-1] == wish.command.split()[-1]


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (Wish(command="  "), "what is to be run"),
        (Wish(command="a\nb"), "one line"),
        (Wish(command="python 'train"), "cannot read"),
        (Wish(command="python train.py && rm -r out"), "&& would be read by the shell"),
        (Wish(command="python train.py | tee log"), "| would be read by the shell"),
        (Wish(command="python train.py > log"), "> would be read by the shell"),
        (Wish(command="x", min_gpus=4, max_gpus=2), "swap the two"),
        (Wish(command="x", max_gpus=2), "say which"),
        (Wish(command="x", memory="much"), "12GiB"),
        (Wish(command="x", name="a\x1b[31m"), "begins with a letter"),
    ],
)
def test_what_cannot_be_typed_says_why(wish: Wish, said: str) -> None:
    found = composed(wish)
    assert isinstance(found, Unclear)
    assert any(said in problem for problem in found.problems)


def test_a_verb_is_quoted_against_names_that_a_shell_would_read() -> None:
    assert shlex.split(command("keep", "fallow:7; reboot", "--hours", "4")) == [
        "fallow",
        "keep",
        "fallow:7; reboot",
        "--hours",
        "4",
    ]
