"""A state as tensors and a JSON text that says where each belongs: what is handed over is read, never run.

``encode`` takes a state apart, ``restore`` puts one together. A peer's text can name no function, and no
class but those listed here and named tuples that are loaded already, which are made without their own code.
So whatever a peer sends, the worst that comes of it is a false state.

    null, true, 7, 0.5, NaN, "text"             None, bool, int, float, str
    {KEY: NODE}                                 a dict whose keys are strings
    ["list" | "tuple" | "set" | "frozenset" | "size", NODES]        ["deque", NODES, MAXLEN]
    ["plain", "list" | "tuple", VALUES]         of JSON's single values alone, however many
    ["named", MODULE, NAME, NODES]              a named tuple
    ["dict" | "ordered" | "counter", PAIRS]     ["default", FACTORY, PAIRS]
    ["int", HEX]  ["complex", REAL, IMAGINARY]  ["dtype", NAME]  ["device", NAME]
    ["bytes" | "bytearray", BASE64 | TENSOR]    ["array" | "number", TENSOR]        the last two are NumPy's
    ["tensor", INDEX, SHAPE, DTYPE, ON_CPU]     ["coo", INDICES, VALUES, SHAPE, COALESCED]
    ["compressed", LAYOUT, COMPRESSED, PLAIN, VALUES, SHAPE]
"""

import base64
import collections
import ctypes
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

DEEPEST = 100
"""Levels of a state; each is three of JSON's, whose reader stops at about 1,000."""
WIDEST = 1 << 512
"""Larger whole numbers are written in hexadecimal: Python refuses to read 4,300 decimal digits."""
SHORT_BYTES = 256
"""Shorter bytes stand in the text; longer ones travel as a tensor."""
SEQUENCES = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset, "size": torch.Size}
MAPPINGS = {"dict": dict, "ordered": collections.OrderedDict, "counter": collections.Counter}
FACTORIES = {kind.__name__: kind for kind in (int, float, bool, str, list, dict, set, tuple)}
LAYOUTS = {
    "csr": (torch.sparse_csr, "crow_indices", "col_indices"),
    "bsr": (torch.sparse_bsr, "crow_indices", "col_indices"),
    "csc": (torch.sparse_csc, "ccol_indices", "row_indices"),
    "bsc": (torch.sparse_bsc, "ccol_indices", "row_indices"),
}
SINGLE = {type(None), bool, float, str}
HOLDABLE = "tensors, numbers, strings, bytes, lists, tuples, sets, dicts and NumPy arrays"

Node = Any


class NotAState(Exception):
    """What a peer sent cannot be put together."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A tensor's place; tensors that share their memory share an ``index``."""

    index: int
    shape: torch.Size
    dtype: torch.dtype
    on_cpu: bool


def encode(state: Any) -> tuple[Node, list[torch.Tensor]]:
    """``state`` as what JSON can hold, and its tensors, by their index.

    Raises TypeError for what only its own code could read back, RecursionError for what holds itself.
    """
    writer = _Writer()
    return writer.node(state, 0), writer.tensors


def slots(node: Node, twins: Any) -> list[tuple[Slot, Any]]:
    """The tensors of what ``encode`` gave, by their index, each with what ``twins`` has in its first place.

    Raises NotAState.
    """
    result: dict[int, tuple[Slot, Any]] = {}
    try:
        for slot, twin in _walk(node, twins):
            result.setdefault(slot.index, (slot, twin))
        return [result[index] for index in range(len(result))]
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError, RecursionError) as error:
        raise NotAState(f"{type(error).__name__}: {error}") from error


def restore(node: Node, tensors: Sequence[torch.Tensor]) -> Any:
    """The state that ``encode`` took apart. Raises NotAState."""
    try:
        return _restored(node, tensors)
    except (ValueError, TypeError, LookupError, AttributeError, RuntimeError, RecursionError) as error:
        raise NotAState(f"{type(error).__name__}: {error}") from error


# -- taking apart -----------------------------------------------------------------------------------------


class _Writer:
    def __init__(self) -> None:
        self.tensors: list[torch.Tensor] = []
        self._known: dict[Any, Node] = {}

    def node(self, value: Any, depth: int) -> Node:
        kind = type(value)
        if kind in SINGLE:
            return value
        if kind is int:
            return value if -WIDEST < value < WIDEST else ["int", hex(value)]
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if depth > DEEPEST:
            raise RecursionError(f"it holds itself, or more than {DEEPEST} levels")
        if isinstance(value, dict):
            return self._mapping(value, depth + 1)
        if isinstance(value, list | tuple | set | frozenset | collections.deque):
            return self._sequence(value, depth + 1)
        return self._single(value)

    def _sequence(self, value: Any, depth: int) -> Node:
        kind = type(value)
        if kind in (list, tuple) and _is_plain(value):
            return ["plain", kind.__name__, list(value)]
        items = [self.node(item, depth) for item in value]
        if kind is collections.deque:
            return ["deque", items, value.maxlen]
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            if vars(sys.modules.get(kind.__module__, object)).get(kind.__qualname__) is not kind:
                raise TypeError("its class cannot be found by its name")
            return ["named", kind.__module__, kind.__qualname__, items]
        return [_name_of(kind, SEQUENCES), items]

    def _mapping(self, value: dict[Any, Any], depth: int) -> Node:
        """One of a class that isn't known arrives as a dict, as those that torch's own state_dict() gives."""
        kind = type(value)
        if kind not in (*MAPPINGS.values(), collections.defaultdict):
            kind = dict
        if kind is dict and all(type(key) is str for key in value):
            return {key: self.node(item, depth) for key, item in value.items()}
        pairs = [[self._key(key, depth), self.node(item, depth)] for key, item in value.items()]
        if isinstance(value, collections.defaultdict):
            factory = value.default_factory
            return ["default", factory and _name_of(factory, FACTORIES), pairs]
        return [_name_of(kind, MAPPINGS), pairs]

    def _key(self, key: Any, depth: int) -> Node:
        before = len(self.tensors)
        node = self.node(key, depth)
        if len(self.tensors) > before or isinstance(key, torch.Tensor):
            raise TypeError(
                f"one of its keys is a {type(key).__qualname__} with a tensor or long bytes in it"
            )
        return node

    def _single(self, value: Any) -> Node:
        numpy = sys.modules.get("numpy")
        match value:
            case complex() if type(value) is complex:
                return ["complex", value.real, value.imag]
            case torch.dtype() | torch.device():
                return [type(value).__name__, str(value).removeprefix("torch.")]
            case bytes() | bytearray() if type(value) in (bytes, bytearray):
                return [type(value).__name__, self._bytes(bytes(value))]
        if numpy is not None and type(value) is numpy.ndarray:
            contiguous = value if value.flags.c_contiguous and value.flags.writeable else value.copy()
            return ["array", self._tensor(torch.from_numpy(contiguous))]
        if numpy is not None and isinstance(value, numpy.generic):
            return ["number", self._tensor(torch.from_numpy(value.reshape(1).copy()))]
        raise TypeError(f"only {HOLDABLE} can be")

    def _bytes(self, value: bytes) -> Node:
        if len(value) <= SHORT_BYTES:
            return base64.b64encode(value).decode()
        return self._tensor(torch.frombuffer(bytearray(value), dtype=torch.uint8))

    def _tensor(self, value: torch.Tensor) -> Node:
        _check_plain(value)  # what detach() gives of a subclass may be a plain tensor of another meaning
        tensor = value.detach()
        if tensor.layout is torch.sparse_coo:
            parts = [self._tensor(tensor._indices()), self._tensor(tensor._values())]
            return ["coo", *parts, list(tensor.shape), tensor.is_coalesced()]
        for name, (layout, *indices) in LAYOUTS.items():
            if tensor.layout is layout:
                parts = [self._tensor(getattr(tensor, part)()) for part in (*indices, "values")]
                return ["compressed", name, *parts, list(tensor.shape)]
        place = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
        if place not in self._known:
            dtype = str(tensor.dtype).removeprefix("torch.")
            on_cpu = tensor.device.type == "cpu"
            self._known[place] = ["tensor", len(self.tensors), list(tensor.shape), dtype, on_cpu]
            self.tensors.append(tensor)
        return self._known[place]


def _check_plain(tensor: torch.Tensor) -> None:
    """Raises TypeError for a tensor whose elements do not lie in memory as their dtype says."""
    strange = (
        "quantized" if tensor.is_quantized
        else "on no device" if tensor.device.type == "meta"
        else "of a class with its own storage" if type(tensor).__torch_dispatch__ is not _NO_DISPATCH
        else f"laid out as {tensor.layout}" if tensor.is_mkldnn or tensor.is_nested
        else None
    )  # fmt: skip
    if strange is not None:
        raise TypeError(f"it is {strange}")


_NO_DISPATCH = torch.Tensor.__torch_dispatch__


def _is_plain(values: Iterable[Any]) -> bool:
    kinds = set(map(type, values))
    if int in kinds and not all(-WIDEST < each < WIDEST for each in values if type(each) is int):
        return False
    return kinds <= SINGLE | {int}


def _name_of(kind: Any, names: dict[str, Any]) -> str:
    for name, each in names.items():
        if each is kind:
            return name
    raise TypeError(f"only {HOLDABLE} can be")


# -- putting together -------------------------------------------------------------------------------------


def _walk(node: Node, twin: Any) -> Iterator[tuple[Slot, Any]]:
    match node:
        case ["tensor", int(index), list(shape), str(dtype), bool(on_cpu)]:
            yield Slot(index, torch.Size(shape), _dtype(dtype), on_cpu), twin
        case dict():
            for key, item in node.items():
                yield from _walk(item, twin.get(key) if isinstance(twin, dict) else None)
        case ["list" | "tuple" | "size" | "deque", list(items), *_] | ["named", _, _, list(items)]:
            for place, item in enumerate(items):
                is_same = isinstance(twin, list | tuple | collections.deque) and place < len(twin)
                yield from _walk(item, twin[place] if is_same else None)
        case ["dict" | "ordered" | "counter", list(pairs)] | ["default", _, list(pairs)]:
            for key, item in pairs:
                is_same = isinstance(twin, dict)
                yield from _walk(item, twin.get(_restored(key, ())) if is_same else None)
        case ["plain", *_]:
            return
        case [_, *parts]:
            for part in parts:
                yield from _walk(part, None)


def _restored(node: Node, tensors: Sequence[torch.Tensor]) -> Any:
    match node:
        case None | bool() | int() | float() | str():
            return node
        case dict():
            return {key: _restored(item, tensors) for key, item in node.items()}
        case ["tensor", int(index), *_]:
            return tensors[index]
        case ["plain", "list" | "tuple" as kind, list(values)]:
            return SEQUENCES[kind](values)
        case ["deque", list(items), maxlen]:
            return collections.deque((_restored(item, tensors) for item in items), maxlen)
        case ["named", str(module), str(name), list(items)]:
            return tuple.__new__(_named(module, name, len(items)), [_restored(i, tensors) for i in items])
        case ["default", factory, list(pairs)]:
            builder = None if factory is None else FACTORIES[factory]
            return collections.defaultdict(builder, _paired(pairs, tensors))
        case [str(kind), list(items)] if kind in SEQUENCES:
            return SEQUENCES[kind](_restored(item, tensors) for item in items)
        case [str(kind), list(pairs)] if kind in MAPPINGS:
            return MAPPINGS[kind](_paired(pairs, tensors))
        case [str(kind), *parts]:
            return _restored_single(kind, parts, tensors)
    raise NotAState("it is no state")


def _paired(pairs: list[Node], tensors: Sequence[torch.Tensor]) -> dict[Any, Any]:
    return {_restored(key, tensors): _restored(item, tensors) for key, item in pairs}


def _restored_single(kind: str, parts: list[Node], tensors: Sequence[torch.Tensor]) -> Any:
    match kind, parts:
        case "int", [str(digits)]:
            return int(digits, 16)
        case "complex", [real, imaginary]:
            return complex(real, imaginary)
        case "dtype", [str(name)]:
            return _dtype(name)
        case "device", [str(name)]:
            return torch.device(name)
        case "bytes", [held]:
            return _restored_bytes(held, tensors)
        case "bytearray", [held]:
            return bytearray(_restored_bytes(held, tensors))
        case "array", [held]:
            return _restored(held, tensors).numpy()
        case "number", [held]:
            return _restored(held, tensors).numpy()[0]
        case "coo", [indices, values, shape, coalesced]:
            restored = [_restored(part, tensors) for part in (indices, values)]
            return torch.sparse_coo_tensor(*restored, shape, check_invariants=True, is_coalesced=coalesced)
        case "compressed", [layout, *three, shape]:
            restored = [_restored(part, tensors) for part in three]
            return torch.sparse_compressed_tensor(
                *restored, shape, layout=LAYOUTS[layout][0], check_invariants=True
            )
    raise NotAState(f"{kind!r} is nothing that a state holds")


def _restored_bytes(node: Node, tensors: Sequence[torch.Tensor]) -> bytes:
    if isinstance(node, str):
        return base64.b64decode(node)
    tensor = _restored(node, tensors)
    return ctypes.string_at(tensor.data_ptr(), tensor.numel())


def _dtype(name: str) -> torch.dtype:
    value = vars(torch).get(name)
    if not isinstance(value, torch.dtype):
        raise NotAState(f"{name!r} is no dtype")
    return value


def _named(module: str, name: str, items: int) -> type[tuple[Any, ...]]:
    """A named tuple that is loaded already; nothing is imported for a peer."""
    value = vars(sys.modules.get(module, object)).get(name)
    if not (isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")):
        raise NotAState(f"{module}.{name} is no named tuple that is known here")
    if len(value._fields) != items:
        raise NotAState(f"{module}.{name} has {len(value._fields)} fields, not {items}")
    return value
