"""Whatever a state may hold comes back as it was; whatever a peer may send is at worst no state."""

import collections
import json
import math
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")
numpy = pytest.importorskip("numpy", reason="numpy is not installed; pip install -c constraints.txt numpy")

from fallow.process_group import state_text  # noqa: E402
from fallow.process_group.collectives import Group, GroupBroken  # noqa: E402
from fallow.process_group.state_text import NotAState  # noqa: E402
from fallow.process_group.state_transfer import _send_header, receive_state  # noqa: E402
from tests.fallow.ranks import CPU, together  # noqa: E402
from tests.fallow.stranger import Evil  # noqa: E402

pytestmark = pytest.mark.quick
Pair = collections.namedtuple("Pair", "left right")


def there_and_back(state: Any) -> Any:
    node, tensors = state_text.encode(state)
    told = json.loads(json.dumps(node))
    found = state_text.slots(told, state)
    assert [slot.index for slot, _ in found] == list(range(len(tensors)))
    for (slot, _), tensor in zip(found, tensors, strict=True):
        assert (slot.shape, slot.dtype) == (tensor.shape, tensor.dtype)
    return state_text.restore(told, tensors)


@pytest.mark.parametrize(
    "value",
    [
        None, True, 0, -7, 2**63, -(2**200), 2**5000, 0.1, -0.0, 5e-324, math.inf, -math.inf,
        "", "text", "\ud800 alone", "\x00", b"", b"\x00\xff", bytes(range(256)) * 5, bytearray(b"abc"),
        1 + 2j, complex(math.inf, -0.0), (), [], {}, set(), frozenset(), (1, (2, [3, None])), [[], [[]]],
        {1, "a", None, 2.5, (1, 2)}, frozenset({b"x"}),
        {1: "a", (1, "b"): 2, None: 3, 1.5: 4, b"k": 5, False: 6},
        {"a": {"b": [1, 2.5, "c", None, True]}}, {"tensor": ["tensor", 0]}, ["tensor", 0, [1], "int8", True],
        ["list", ["plain", "list"]], list(range(1000)), tuple(float(n) for n in range(9)),
        torch.float16, torch.bfloat16, torch.device("cpu"), torch.device("cuda", 3), torch.Size([2, 3]),
        collections.deque([1, 2, 3], 3), collections.deque(), collections.OrderedDict([(2, 1), (1, 2)]),
        collections.Counter("aab"), collections.defaultdict(list, {1: [2]}),
        collections.defaultdict(None, a=1),
        Pair(1, "x"), random.Random(3).getstate(),
        {"state": {0: {"step": 3}}, "param_groups": [{"betas": (0.9, 0.999), "lr": 1e-3, "params": [0, 1]}]},
    ],
    ids=lambda value: f"{type(value).__name__}",
)  # fmt: skip
def test_plain_values_come_back_with_their_types(value: Any) -> None:
    back = there_and_back({"it": value})["it"]
    assert type(back) is type(value)
    assert back == value
    if not isinstance(value, set):  # which has no order
        assert repr(back) == repr(value), "types inside, signs of zero and order too"
    assert getattr(back, "default_factory", 0) is getattr(value, "default_factory", 0)


def test_a_number_that_python_refuses_to_print_comes_back() -> None:
    assert there_and_back([-(2**20000)] * 2) == [-(2**20000)] * 2


def test_nan_comes_back() -> None:
    back = there_and_back([math.nan, (math.nan, 1)])
    assert math.isnan(back[0])
    assert math.isnan(back[1][0])


@pytest.mark.parametrize(
    "dtype", sorted({value for value in vars(torch).values() if isinstance(value, torch.dtype)}, key=str)
)
def test_tensors_of_every_dtype_that_can_be_made_are_described(dtype: "torch.dtype") -> None:
    try:
        tensor = torch.empty(2, 0, 3, dtype=dtype)
    except (RuntimeError, TypeError):
        pytest.skip(f"this torch makes no tensor of {dtype}")
    if tensor.is_quantized:
        with pytest.raises(TypeError, match="quantized"):
            state_text.encode([tensor])
        return
    back = there_and_back([tensor, torch.empty((), dtype=dtype)])
    assert [each.dtype for each in back] == [dtype, dtype]


def test_tensors_that_share_their_memory_share_it_afterwards() -> None:
    one = torch.ones(3)
    back = there_and_back({"a": one, "b": [one], "c": torch.nn.Parameter(one), "d": torch.ones(3)})
    assert back["a"] is back["b"][0] is back["c"]
    assert back["a"] is not back["d"]


@pytest.mark.parametrize(
    "array",
    [
        numpy.arange(6).reshape(2, 3)[:, ::-1], numpy.array(2.5), numpy.zeros((0, 3), numpy.int8),
        numpy.array([True, False]), numpy.array([1 + 2j]), numpy.array([2**64 - 1], numpy.uint64),
        numpy.float64(0.1), numpy.float32(0.1), numpy.int64(-3), numpy.uint8(255), numpy.bool_(True),
    ],
)  # fmt: skip
def test_numpys_arrays_and_numbers_come_back(array: Any) -> None:
    array_was = array.copy()
    back = there_and_back([array])[0]
    assert type(back) is type(array)
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert numpy.array_equal(back, array_was)


def test_numpys_generators_come_back() -> None:
    old, new = numpy.random.RandomState(3), numpy.random.default_rng(3)
    back = there_and_back({"old": old.get_state(), "new": new.bit_generator.state})
    drawn = old.random_sample(5), new.random(5)
    old.set_state(back["old"])
    new.bit_generator.state = back["new"]
    assert numpy.array_equal(drawn[0], old.random_sample(5))
    assert numpy.array_equal(drawn[1], new.random(5))


@pytest.mark.parametrize(
    "layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc]
)
def test_sparse_tensors_come_back(layout: "torch.layout") -> None:
    blocks = {"blocksize": (2, 2)} if layout in (torch.sparse_bsr, torch.sparse_bsc) else {}
    one = torch.eye(4).to_sparse(layout=layout, **blocks)
    back = there_and_back([one])[0]
    assert back.layout == layout
    assert torch.equal(back.to_dense(), one.to_dense())


class Own:
    pass


class OwnList(list[int]):
    pass


class OwnText(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "value",
    [
        Own(), Own, lambda: 0, print, json, range(3), iter([]), OwnList([1]), OwnText("a"), Path("a"),
        random.Random(1),
        torch.Generator(), torch.empty(2, device="meta"), numpy.array(["a"]), numpy.array([None]),
        numpy.random.RandomState(1), collections.defaultdict(lambda: 0), {Own(): 1}, {torch.ones(1): 1},
        {bytes(300): 1}, collections.namedtuple("Unfound", "a")(1), torch.nn.Linear(1, 1), torch.sum,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_only_its_own_code_could_read_back_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        state_text.encode({"it": [value]})


def test_what_holds_itself_is_refused() -> None:
    around: list[Any] = []
    around.append({"again": around})
    with pytest.raises(RecursionError, match="holds itself"):
        state_text.encode(around)


def test_a_named_tuple_is_made_without_its_own_code_and_nothing_is_imported() -> None:
    with pytest.raises(NotAState, match="no named tuple"):
        state_text.restore(["named", "os", "system", ["true"]], [])
    with pytest.raises(NotAState, match="no named tuple"):
        state_text.restore(["named", "antigravity", "geohash", [1, 2, 3]], [])
    with pytest.raises(NotAState, match="2 fields, not 1"):
        state_text.restore(["named", __name__, "Pair", [1]], [])


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(
        ["list", "tuple", "set", "dict", "tensor", "named", "size", "coo", "compressed", "bytes"]
    )
    | st.sampled_from(
        ["array", "number", "default", "counter", "dtype", "device", "int", "plain", "deque", "csr"]
    ),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=60)
@given(JSON)
def test_any_json_is_a_state_or_no_state(node: Any) -> None:
    try:
        found = state_text.slots(node, {"a": [torch.ones(1)]})
        state_text.restore(node, [torch.zeros(2) for _ in found])
    except NotAState:
        return


def test_a_pickle_that_is_handed_over_breaks_the_group_and_runs_nothing(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    words = [
        pickle.dumps((Evil(f"touch {marker}"), None)),
        b"[]",
        b"[1, 2]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'[["tensor", 5, [1], "float32", true], null]',
        b'[["tensor", 0, [-1], "float32", true], null]',
        b'[["tensor", 0, [1152921504606846976], "float64", true], null]',
        b'[["tensor", 0, [1], "float32", true], {"machine": "", "pid": 1, "began": 1, "spans": [[0, 0, 8]]}]',
        b'[["tensor", 0, [1], "float32", true], {"machine": "", "pid": 1, "began": 1, "spans": [[9, 0, 4]]}]',
    ]

    for word in words:

        def work(group: Group, word: bytes = word) -> object:
            if group.rank == 0:
                _send_header(group, 1, word, CPU)
                return None
            return receive_state(group, 0, None, CPU)

        _, received = together(2, work)
        assert isinstance(received, GroupBroken), (word[:80], received)
        assert "what rank 0 sent is no state" in str(received)
    assert not marker.exists()


@pytest.mark.parametrize("length", [-1, 0, 1 << 40])
def test_a_length_that_is_none_breaks_the_group(length: int) -> None:
    def work(group: Group) -> object:
        if group.rank == 0:
            group.send(torch.tensor([length]), 1)
            return None
        return receive_state(group, 0, None, CPU)

    _, received = together(2, work)
    assert isinstance(received, GroupBroken)
    assert f"{length} bytes" in str(received)
