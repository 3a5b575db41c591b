"""An owner's word in a job's comment: understood wholly, or it allows nothing and says why."""

import pytest

from collector.managers.owner_word import TEXT_CHARS, OwnerWord, word_of


@pytest.mark.parametrize(
    ("comment", "pause", "sizes"),
    [
        ("fallow:pause", True, (None, None)),
        ("fallow:elastic=2-8,pause", True, (2, 8)),
        ("fallow:elastic=2-8", False, (2, 8)),
        ("wckey=7; fallow:pause", True, (None, None)),
        ("my notes fallow:pause and more", True, (None, None)),
        ("fallow:1f2e3d:of=812", False, (None, None)),
        ("fallow:1f2e3d:of=812_4", False, (None, None)),
    ],
)
def test_a_word_is_found_beside_what_others_write(
    comment: str, pause: bool, sizes: tuple[int | None, int | None]
) -> None:
    word = word_of(comment)
    assert word is not None and word.problem == ""
    assert (word.pause, (word.min_gpus, word.max_gpus)) == (pause, sizes)


@pytest.mark.parametrize(
    "comment",
    [
        "fallow:",
        "fallow:pasue",
        "fallow:pause,elastic",
        "fallow:pause,elastic=8-2",
        "fallow:pause,elastic=0-2",
        "fallow:elastic=1-2,elastic=1-3,pause",
        "fallow: pause",
        "FALLOW:pause fallow:pause",
        "fallow:pause fallow:elastic=1-2",
        "fallow:pause,",
        "fallow:PAUSE",
        "fallow:pause\x00",
        "fallow:" + "pause," * 100,
    ],
)
def test_what_is_not_wholly_understood_allows_nothing_and_says_why(comment: str) -> None:
    word = word_of(comment)
    assert word is not None and word.problem
    assert not word.pause and word.min_gpus is None
    assert len(word.text) <= TEXT_CHARS and len(word.problem) < 200


@pytest.mark.parametrize("comment", ["", "(null)", "N/A", "pause", "not fallow:pause"[4:10], "xfallow:pause"])
def test_a_comment_that_is_not_for_us_says_nothing(comment: str) -> None:
    assert word_of(comment) is None


def test_the_word_is_kept_as_it_was_written() -> None:
    assert word_of("a fallow:pause b") == OwnerWord(text="fallow:pause", pause=True)
