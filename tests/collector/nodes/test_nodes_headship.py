"""Two heads of one site's nodes: at most one takes ticks in and acts, whichever copy it began from."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from collector.model import NodeName
from collector.reading import NodeMark
from collector.sources.nodes.headship import KNOWN_MS, Headship
from collector.sources.nodes.terms import Term, is_genuine, is_older, sealed, superseded_by
from collector.sources.nodes.wire import term_of
from collector.store.database import Store
from collector.store.head_terms import begin_term, supersede
from tests.stores import open_store

KEY = b"k" * 32
A = NodeName("gpu-a")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "fallow.duckdb") as made:
        yield made


def term(epoch: int = 0, start: int = 1, word: str = "w") -> Term:
    return sealed(KEY, epoch=epoch, start=start, word=word)


def marks(*names: str, heard_ms: int = 1_000) -> tuple[NodeMark, ...]:
    return tuple(NodeMark(node=NodeName(name), heard_ms=heard_ms) for name in names)


@pytest.mark.parametrize(
    ("heard", "says"),
    [
        (term(0, 3, "w3"), None),  # this start
        (term(0, 2, "w2"), None),  # the start before
        (term(0, 1, "gone"), None),  # so old that the store has forgotten its word
        (term(0, 2, "other"), "another head, which began on a copy"),
        (term(0, 3, "other@head-b"), "the head on head-b, which began on a copy"),
        (term(0, 4, "w4"), "a copy of the head's store, or was restored from a back-up"),
        (term(9, 1, "w"), "another head, which took over"),
        (term(9, 1, "w@head-b"), "the head on head-b, which took over"),
    ],
)
def test_what_a_node_has_heard_decides_who_is_the_head(heard: Term, says: str | None) -> None:
    found = superseded_by(term(0, 3, "w3"), {3: "w3", 2: "w2"}, heard, "gpu-a")
    assert found is None if says is None else found is not None and says in found


def test_who_took_over_last_is_the_head_of_all() -> None:
    new = term(1_800_000_000_000, 4)
    assert superseded_by(new, {4: "w"}, term(0, 99, "x"), "gpu-a") is None
    told = superseded_by(new, {4: "w"}, term(1_800_000_060_000, 2), "gpu-a")
    assert told is not None and "2027-01-15 08:01:00 UTC" in told and "fallow store take-over" in told


def test_a_node_deletes_nothing_at_the_word_of_an_older_head() -> None:
    heard = term(5, 7)
    assert [is_older(each, heard) for each in (None, term(4, 9), term(5, 6), term(5, 7, "twin"))] == [
        True
    ] * 4
    assert not any(is_older(each, heard) for each in (heard, term(5, 8), term(6, 1)))


def test_a_head_acts_once_more_than_half_of_its_nodes_have_pushed() -> None:
    head = Headship(KEY, term(), {1: "w"}, marks("gpu-a", "gpu-b", "gpu-c"))
    assert "3 of the 3 machines" in (head.withheld() or "")
    assert head.hear(A, None) is None
    assert "2 of the 3 machines" in (head.withheld() or "")
    assert head.hear(A, term()) is None, "the same machine counts once"
    assert head.withheld() is not None
    assert head.hear(NodeName("gpu-b"), term()) is None
    assert head.withheld() is None


def test_half_of_the_nodes_are_not_enough_for_two_heads_could_have_one_half_each() -> None:
    head = Headship(KEY, term(), {1: "w"}, marks("gpu-a", "gpu-b"))
    head.hear(A, None)
    assert head.withheld() is not None


def test_a_machine_that_was_away_for_over_a_day_is_not_waited_for() -> None:
    old = marks("gone", "gone-too", heard_ms=0)
    head = Headship(KEY, term(), {1: "w"}, (*old, *marks("gpu-a", heard_ms=KNOWN_MS + 1)))
    head.hear(A, None)
    assert head.withheld() is None


def test_a_start_names_its_machine_under_its_seal_whatever_that_is_called(store: Store) -> None:
    first, words, _ = begin_term(store, KEY, 1_000, machine="head-a")
    assert first.head == "the head on head-a" and is_genuine(KEY, first) and words[1] == first.word
    assert not is_genuine(KEY, replace(first, word=first.word.replace("head-a", "head-b")))
    odd, _, _ = begin_term(store, KEY, 2_000, machine="a\n\x1b[31m" + "b" * 300)
    assert odd.head.isprintable() and term_of(asdict(odd)) == odd, "it travels"


def test_a_head_that_only_waits_for_its_machines_is_not_superseded() -> None:
    head = Headship(KEY, term(), {1: "w"}, marks("gpu-a"))
    assert head.withheld() is not None and head.superseded() is None
    told = head.hear(A, term(9, 1, "w@head-b"))
    assert head.superseded() == told == head.withheld() and told is not None


def test_a_head_without_machines_acts_at_once() -> None:
    assert Headship(KEY, term(), {1: "w"}).withheld() is None


def test_a_head_that_was_superseded_stays_so_whoever_pushes_then(store: Store) -> None:
    first, words, superseded = begin_term(store, KEY, 1_000)
    kept: list[str] = []
    head = Headship(KEY, first, words, superseded=superseded, keep=kept.append)
    told = head.hear(A, term(0, 2, "x"))
    assert told is not None and head.withheld() == told and kept == [told]
    assert head.hear(NodeName("gpu-b"), None) == told, "nor does it take in what another node has"
    supersede(store, told)
    again, words, superseded = begin_term(store, KEY, 2_000)
    assert (again.start, superseded) == (2, told)
    assert Headship(KEY, again, words, superseded=superseded).withheld() == told


def test_a_take_over_is_above_all_that_was_and_makes_it_the_head(store: Store) -> None:
    first, _, _ = begin_term(store, KEY, 1_000)
    supersede(store, "another one")
    taken, words, superseded = begin_term(store, KEY, 5_000, takes_over=True)
    assert (taken.epoch, taken.start, superseded) == (5_000, 2, None)
    assert words == {2: taken.word}, "starts before it are of another epoch"
    clock_set_back, _, _ = begin_term(store, KEY, 100, takes_over=True)
    assert clock_set_back.epoch == 5_001
    plain, words, _ = begin_term(store, KEY, 200)
    assert (plain.epoch, plain.start, set(words)) == (5_001, 4, {3, 4})
    assert Headship(KEY, plain, words).hear(A, first) is None


def test_a_node_that_invents_a_head_is_refused_and_stops_nobody() -> None:
    head = Headship(KEY, term(), {1: "w"})
    for invented in (sealed(b"x" * 32, epoch=9, start=9, word="w"), replace(term(), epoch=9)):
        assert "lease.key" in (head.hear(A, invented) or "")
    assert head.withheld() is None
