"""A state arrives as it was sent: bit by bit, in place where it can, through chains, whatever it holds."""

import collections
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from fallow.process_group import chunks, local_copy  # noqa: E402
from fallow.process_group.collectives import Group, GroupBroken  # noqa: E402
from fallow.process_group.state_transfer import Route, receive_state, route, send_state  # noqa: E402
from tests.fallow.ranks import CPU, together  # noqa: E402

Pair = collections.namedtuple("Pair", "left right")


def large(seed: int) -> "torch.Tensor":
    """More than two pieces, and no multiple of a piece."""
    elements = chunks.PIECE_BYTES // 4 * 2 + 12_345
    return torch.randn(elements, generator=torch.Generator().manual_seed(seed))


def odd_state() -> dict[str, object]:
    """Everything a state has been seen to hold, and worse."""
    weights = large(1)
    return {
        "step": 7,
        "large": weights,
        "tied": weights,
        "channels last": large(2)[:98_304].view(3, 64, 512, 1).to(memory_format=torch.channels_last),
        "transposed": large(3)[: 1_000_000].view(1000, 1000).t(),
        "strided": large(4)[::2],
        "huge dtype mix": [
            large(5)[:100_000].to(dtype)
            for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int64)
        ],
        "complex": torch.complex(large(6)[:200_000], large(7)[:200_000]).conj(),
        "bools": large(8)[:999] > 0,
        "empty": torch.zeros(0, 5),
        "scalars": [torch.tensor(float(n)) for n in range(50)],
        "pair": Pair(torch.arange(3), "text"),
        "nested": {"a": ({"b": [torch.ones(2, 2, dtype=torch.uint8)]}, None)},
        "sparse": torch.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (4,)),
    }  # fmt: skip


def leaves(node: object) -> list[object]:
    if isinstance(node, dict):
        return [leaf for value in node.values() for leaf in leaves(value)]
    if isinstance(node, list | tuple):
        return [leaf for value in node for leaf in leaves(value)]
    return [node]


def assert_same(one: object, other: object) -> None:
    assert type(one) is type(other)
    for mine, theirs in zip(leaves(one), leaves(other), strict=True):
        if isinstance(mine, torch.Tensor):
            assert mine.dtype == theirs.dtype
            assert mine.shape == theirs.shape
            dense = (mine.to_dense(), theirs.to_dense()) if mine.is_sparse else (mine, theirs)
            assert torch.equal(*dense)
        else:
            assert mine == theirs


@pytest.mark.parametrize("readers", ["", "1", "2", "12", "23", "13", "123"])
@pytest.mark.parametrize("receivers", [1, 2, 3])
def test_a_state_arrives_at_every_link_of_a_chain_as_it_was_sent(
    monkeypatch: pytest.MonkeyPatch, receivers: int, readers: str
) -> None:
    """Whoever of them can read the source's memory, and whoever stands behind one who can or can't."""
    transfers = tuple((0, rank) for rank in range(1, receivers + 1))
    here = threading.local()
    able = local_copy.can_read
    monkeypatch.setattr(local_copy, "can_read", lambda made: str(here.rank) in readers and able(made))

    def work(group: Group) -> object:
        here.rank = group.rank
        place = route(transfers, group.rank)
        if place.source is None:
            assert place.onward is not None
            return send_state(group, place.onward, odd_state(), CPU)
        return receive_state(group, place.source, None, CPU, place.onward)

    sent, *received = together(receivers + 1, work)
    assert isinstance(sent, int)
    assert sent > 3 * chunks.PIECE_BYTES
    for state in received:
        assert isinstance(state, dict), state
        assert_same(state, odd_state())
        assert state["large"] is state["tied"]


def test_fitting_twins_are_filled_where_they_lie_and_others_are_left_alone() -> None:
    twins = odd_state()
    for leaf in leaves(twins):
        if isinstance(leaf, torch.Tensor) and not leaf.is_sparse:
            leaf.zero_()
    twins["bools"] = torch.ones(998, dtype=torch.bool)
    twins["empty"] = None
    kept = twins["bools"]

    def work(group: Group) -> object:
        if group.rank == 0:
            return send_state(group, 1, odd_state(), CPU)
        return receive_state(group, 0, twins, CPU)

    _, state = together(2, work)
    assert isinstance(state, dict), state
    assert_same(state, odd_state())
    for name in ("large", "channels last", "transposed", "strided", "complex"):
        assert state[name].data_ptr() == twins[name].data_ptr(), name
        assert torch.equal(state[name], twins[name]), name
    assert bool(kept.all())


def test_a_source_that_ends_while_it_is_read_breaks_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(made: local_copy.Offer, into: object) -> None:
        raise local_copy.NeighbourGone("the memory of process 7 can no longer be read")

    monkeypatch.setattr(local_copy, "read", gone)

    def work(group: Group) -> object:
        if group.rank == 0:
            return send_state(group, 1, odd_state(), CPU)
        return receive_state(group, 0, None, CPU)

    sent, received = together(2, work)
    assert isinstance(sent, GroupBroken)
    assert isinstance(received, GroupBroken)
    assert "process 7" in str(received)


def test_a_state_without_any_tensor_is_handed_over() -> None:
    def work(group: Group) -> object:
        return (
            send_state(group, 1, {"step": 3}, CPU) if group.rank == 0 else receive_state(group, 0, None, CPU)
        )

    assert together(2, work) == [0, {"step": 3}]


@pytest.mark.parametrize("reading", [True, False])
@pytest.mark.parametrize("dying", [0, 1, 2])
def test_a_link_that_breaks_is_told_to_all_others(
    monkeypatch: pytest.MonkeyPatch, dying: int, reading: bool
) -> None:
    """Whoever goes, nobody waits for ever and nobody takes a part for the whole."""
    if not reading:
        monkeypatch.setattr(local_copy, "can_read", lambda made: False)

    def work(group: Group) -> object:
        if group.rank == dying:
            if dying == 0:
                group.send(torch.tensor([10]), 1)
            group.abort()
            return None
        if group.rank == 0:
            return send_state(group, 1, {"large": [large(n) for n in range(20)]}, CPU)
        return receive_state(group, group.rank - 1, None, CPU, group.rank + 1 if group.rank == 1 else None)

    for rank, result in enumerate(together(3, work)):
        beside = abs(rank - dying) == 1
        assert not beside or isinstance(result, GroupBroken), (rank, result)
        assert isinstance(result, GroupBroken | int | None), (rank, result)


@given(st.integers(1, 5), st.integers(0, 8))
def test_every_receiver_is_fed_once_and_no_rank_sends_to_two(sources: int, receivers: int) -> None:
    transfers = [(turn % sources, sources + turn) for turn in range(receivers)]
    places = [route(transfers, rank) for rank in range(sources + receivers)]
    for rank, place in enumerate(places):
        assert (place.source is None) == (rank < sources)
        if place.source is not None:
            assert places[place.source].onward == rank
        if place.onward is not None:
            assert places[place.onward].source == rank


def test_who_takes_no_part_has_no_place() -> None:
    assert route([(0, 2)], 1) == Route()
