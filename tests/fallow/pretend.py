"""A device named ``pretend`` on any machine: CPU memory that torch takes for another device's, as CUDA's is.

It refuses what CUDA refuses (a CPU tensor with dimensions beside one of its own) and notes in ``waits`` each
time the host had to wait for it: a number that was read, a copy that blocks, an event that had not come. A
copy to the host that doesn't block holds garbage until the device was waited for, or an event behind it came.

``torch.save`` writes its tensors through copies on the host. It knows no sparse tensors, no AMP and nothing
compiled, and is one device. Import it before torch's first backward pass: autograd counts devices once.
Written for torch 2.13, which calls backends in Python experimental.
"""

import functools
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "pretend"
MAY_MIX = {"copy_", "_to_copy", "_foreach_copy_", "_copy_from", "_copy_from_and_resize"}
LOOKS_AT_NUMBERS = {"nonzero", "masked_select", "_unique2", "unique_dim", "repeat_interleave"}
"""The shape of what they give hangs on the numbers they get: on a GPU the host waits for those."""

waits: list[str] = []
"""What the host waited for; clear it and look."""

_memory: dict[int, torch.Tensor] = {}  # by the address of the storage that torch knows
_under_way: list[tuple[torch.Tensor, torch.Tensor]] = []  # into the host's memory, from a copy of then
_lock = threading.RLock()


class Mixed(RuntimeError):
    """An operation got tensors of two devices."""


class Pretend(torch.Tensor):
    """A tensor whose elements lie in ``_memory``. Of a plain one ``nn.Parameter`` could not be made."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._reduce_ex_internal(protocol)  # type: ignore[no-untyped-call]


class Event:
    """As ``torch.cuda.Event``: has come when the device was waited for, or when it is asked a second time."""

    def __init__(self, enable_timing: bool = False):
        self._awaited, self._looks = -1, 0

    def record(self, stream: object = None) -> None:
        self._awaited, self._looks = len(_settled), 0

    def query(self) -> bool:
        self._looks += 1
        if self._awaited == len(_settled) and self._looks > 1:
            _settle()
        return self._awaited != len(_settled)

    def synchronize(self) -> None:
        if self._awaited == len(_settled):
            wait("event")

    def elapsed_time(self, other: "Event") -> float:
        other.synchronize()
        return 1.0


class Stream:
    """The device does everything at once, so a stream has nothing to order."""

    def __init__(self, device: object = None): ...

    def wait_stream(self, other: "Stream") -> None: ...


class _Module:
    """What ``torch.get_device_module`` gives."""

    Event, Stream = Event, Stream
    is_available = staticmethod(lambda: True)
    is_initialized = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)
    current_device = staticmethod(lambda: 0)
    current_stream = staticmethod(lambda device=None: Stream())
    synchronize = staticmethod(lambda device=None: wait("synchronize"))
    _is_in_bad_fork = staticmethod(lambda: False)
    manual_seed_all = staticmethod(lambda seed: None)
    get_amp_supported_dtype = staticmethod(lambda: [torch.float16])

    @staticmethod
    @contextmanager
    def stream(chosen: Stream) -> Iterator[Stream]:
        yield chosen


_settled: list[None] = []  # as long as the device was caught up with so often


def wait(what: str) -> None:
    """The host waits until the device has done all that was asked of it."""
    waits.append(what)
    _settle()


def _settle() -> None:
    with _lock:
        _settled.append(None)
        for into, value in _under_way:
            into.copy_(value)
        _under_way.clear()


def _to_host(into: torch.Tensor, value: torch.Tensor, *, blocking: bool) -> None:
    if blocking:
        wait("to the host")
        into.copy_(value)
        return
    into.fill_(float("nan") if into.is_floating_point() else 111)
    with _lock:
        _under_way.append((into, value.clone()))


def is_ours(value: object) -> bool:
    """Whether it is a tensor on this device."""
    return isinstance(value, torch.Tensor) and value.device.type == NAME


def raw(tensor: torch.Tensor) -> torch.Tensor:
    """The CPU tensor that holds what ``tensor`` pretends to hold."""
    return _memory[tensor.untyped_storage()._cdata]


def _wrap(held: torch.Tensor) -> torch.Tensor:
    made = torch._C._acc.create_empty_tensor(held.shape, held.dtype)
    made.__class__ = Pretend
    _memory[made.untyped_storage()._cdata] = held
    return made


def _do(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Any operation: done on the CPU, unless it mixes devices."""
    name = op.overloadpacket.__name__
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    mine = [each for each in tensors if is_ours(each)]
    if mine and name not in MAY_MIX and any(each.dim() > 0 and not is_ours(each) for each in tensors):
        raise Mixed(f"{name} mixes {NAME} and cpu")
    if name == "_copy_from":
        return _copied(*args, **kwargs)
    if name == "copy_":
        return _copied(args[1], args[0], *args[2:], **kwargs)
    if name == "_foreach_copy_":
        for into, value in zip(args[0], args[1], strict=True):
            into.copy_(value, non_blocking=bool(args[2:] and args[2]) or kwargs.get("non_blocking", False))
        return None
    asked = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.device)]
    plain, named = tree_map(_down, args), tree_map(_down, kwargs)
    if name == "_to_copy" and asked and asked[0].type == "cpu":
        out = torch.empty_like(op(*plain, **named))
        _to_host(out, raw(args[0]), blocking=not kwargs.get("non_blocking"))
        return out
    if name == "_to_copy" and not mine and not kwargs.get("non_blocking"):
        wait("to the device")
    if name in LOOKS_AT_NUMBERS or (name == "index" and _is_chosen_by_truth(plain)):
        wait(name)
    out = _reshaped(*plain) if op is torch.ops.aten.view.default else op(*plain, **named)
    if isinstance(out, bool | int | float):
        wait(name)
    known = {id(raw(each)): each for each in mine}
    return tree_map(lambda leaf: _up(leaf, known), out)


def _reshaped(held: torch.Tensor, shape: list[int]) -> torch.Tensor:
    """Torch takes all that lies here for contiguous, so it asks for views where it would else copy."""
    try:
        return held.view(shape)
    except RuntimeError:
        return held.reshape(shape)


def _copied(value: torch.Tensor, into: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    if not is_ours(into):
        _to_host(into, raw(value), blocking=not non_blocking)
        return into
    if not is_ours(value) and not non_blocking:
        wait("to the device")
    raw(into).copy_(raw(value) if is_ours(value) else value)
    return into


def _is_chosen_by_truth(plain: Any) -> bool:
    return any(each is not None and each.dtype in (torch.bool, torch.uint8) for each in plain[1])


def _down(value: Any) -> Any:
    if is_ours(value):
        return raw(value)
    return torch.device("cpu") if isinstance(value, torch.device) else value


def _up(value: Any, known: dict[int, torch.Tensor]) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return known[id(value)] if id(value) in known else _wrap(value)


def _register() -> None:
    """Make torch know the device, and send it every operation that it would do itself."""
    _setup_privateuseone_for_python_backend(NAME, backend_module=_Module())
    _libraries.append(torch.library.Library("_", "IMPL"))
    _libraries[0].fallback(_do, "PrivateUse1")
    _libraries.append(torch.library.Library("aten", "IMPL"))
    for key in ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"):
        for full in torch._C._dispatch_get_registrations_for_dispatch_key(key):
            name, _, overload = full.removeprefix("aten::").partition(".")
            if not full.startswith("aten::"):
                continue
            try:
                op = getattr(getattr(torch.ops.aten, name), overload or "default")
                _libraries[1].impl(
                    name + ("." + overload if overload else ""), functools.partial(_do, op), "PrivateUse1"
                )
            except (AttributeError, RuntimeError):
                continue  # an operation that cannot be called, or has a kernel of its own


def _shown(kind: Any, name: str) -> None:
    """Let a method of tensors tell of what is held, not of the empty tensor that torch sees."""
    original = getattr(kind, name)

    @functools.wraps(original)
    def told(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kind is torch.Tensor:
            held = raw(self) if is_ours(self) else None
        else:
            held = _memory[self._cdata].untyped_storage() if self.device.type == NAME else None
        return original(self if held is None else held, *args, **kwargs)

    setattr(kind, name, told)


def _storage_on_host(self: Any) -> Any:
    """What ``torch.save`` writes: a copy on the host."""
    if self.device.type != NAME:
        return _storage_cpu(self)
    wait("to the host")
    return _memory[self._cdata].untyped_storage().clone()


_libraries: list[torch.library.Library] = []
_storage_cpu = torch.UntypedStorage.cpu

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    _register()
    warnings.filterwarnings("ignore", message=".*overriding.*|.*previously registered.*")
for _name in ("data_ptr", "stride", "storage_offset", "is_contiguous"):
    _shown(torch.Tensor, _name)
for _name in ("data_ptr", "nbytes", "size"):
    _shown(torch.UntypedStorage, _name)
torch.UntypedStorage.cpu = _storage_on_host
