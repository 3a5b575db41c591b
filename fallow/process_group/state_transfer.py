"""Moves a training's state from one worker to others over a group, without a disk.

A state is any nesting of dicts, lists and tuples with tensors among its leaves. What it is but for the
tensors travels as JSON (``state_text``), the tensors in ``chunks``: large ones from where they lie to where
they belong, without a copy. Nothing that comes from a peer is unpickled. Several receivers of one source form
a chain, each handing on what it has got while the next piece arrives, so that a source sends everything once
however many join. Which rank sends to whom, the plan says. A receiver on the source's own machine takes what
lies on the CPU straight from the source's memory (``local_copy``), while the source holds still.
"""

import ctypes
import json
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from fallow.errors import StateError
from fallow.process_group import chunks, local_copy, state_text
from fallow.process_group.chunks import Parcel
from fallow.process_group.collectives import Group, GroupBroken, Work
from fallow.process_group.local_copy import NeighbourGone, Offer
from fallow.process_group.state_text import NotAState, Slot
from fallow.state.buffers import overlaps

AHEAD = 6
"""Messages under way at once: one is copied while others travel, and the memory for packing is bounded."""
LONGEST_HEADER_BYTES = 1 << 30
"""What a state is but for its tensors takes kilobytes; a length beyond this is no length."""
DEEPEST = 50
"""Levels of a state that are looked through for what cannot be handed over; it may hold itself."""
PASSED_AS = {"extra": "state"}
"""What a script calls by another name than the state that it is part of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One rank's place in a hand-over: whom it receives from, and whom it sends or forwards to."""

    source: int | None = None
    onward: int | None = None


def route(transfers: Sequence[tuple[int, int]], rank: int) -> Route:
    """Where ``rank`` stands when the receivers of each source form a chain.

    ``transfers`` are pairs of source and receiver rank; each rank receives once at most.
    """
    chains: dict[int, list[int]] = {}
    for source, receiver in transfers:
        chains.setdefault(source, [source]).append(receiver)
    for chain in chains.values():
        if rank in chain:
            before = chain[: chain.index(rank)]
            after = chain[chain.index(rank) + 1 :]
            return Route(source=before[-1] if before else None, onward=after[0] if after else None)
    return Route()


def check_portable(state: Any) -> None:
    """Raises StateError, which names the part, for a state that could not be handed over."""
    trouble = _trouble(state)
    if trouble is not None:
        raise _unportable(state, trouble)


def send_state(group: Group, to: int, state: Any, device: torch.device) -> int:
    """Hand ``state`` to rank ``to``; returns the bytes of tensors handed over. Blocks. Raises GroupBroken.

    Raises StateError, before anything is sent, for a state that cannot be handed over.
    """
    try:
        node, tensors = state_text.encode(state)
        offer = local_copy.offer(tensors) if device.type == "cpu" else None
        header = json.dumps([node, None if offer is None else local_copy.to_json(offer)]).encode()
    except Exception as error:  # whatever the script's own objects raise
        raise _unportable(state, error) from error
    with local_copy.letting_read():
        _send_header(group, to, header, device)
        takes = offer is not None and _hear(group, to, device)
        offered, rest = _divided(tensors, offer)
        _send_all(group, to, rest, device)
        if offer is not None:
            if not takes:
                _send_all(group, to, offered, device)
            _hear(group, to, device)  # that all who read here have read
    group.settle()
    return sum(chunks.nbytes(tensor) for tensor in tensors)


def receive_state(
    group: Group, source: int, twins: Any, device: torch.device, onward: int | None = None
) -> Any:
    """The state that rank ``source`` sends, handed on to rank ``onward`` as it comes in.

    Tensors of ``twins`` at the same place, with the same shape and dtype, are filled in place and returned;
    others are new, on ``device`` or on the CPU where the source had them there. Raises GroupBroken.
    """
    header = _receive_header(group, source, device)
    with _sense_from(source):
        node, offered = json.loads(header)
        tensors = [_target(slot, twin, device) for slot, twin in state_text.slots(node, twins)]
        offer = None if offered is None else local_copy.from_json(offered, tensors)
    if onward is not None:
        _send_header(group, onward, header, device)
    if offer is None:
        _pass_on(group, source, tensors, device, onward)
    else:
        _take(group, Route(source=source, onward=onward), tensors, offer, device)
    group.settle()
    with _sense_from(source):
        return state_text.restore(node, tensors)


@contextmanager
def _sense_from(source: int) -> Iterator[None]:
    """What a peer sent is taken for a state only if it can be one."""
    try:
        yield
    except (NotAState, ValueError, TypeError, RuntimeError, RecursionError) as error:
        raise GroupBroken(f"what rank {source} sent is no state: {error}") from error


def _take(
    group: Group, place: Route, tensors: Sequence[torch.Tensor], offer: Offer, device: torch.device
) -> None:
    """Fill ``tensors``, those in the offer by reading them where that can be; and see to those behind us."""
    source, onward = place.source, place.onward
    assert source is not None
    takes = local_copy.can_read(offer)
    _say(group, source, takes, device)
    onward_takes = onward is not None and _hear(group, onward, device)
    offered, rest = _divided(tensors, offer)
    _pass_on(group, source, rest, device, onward)
    if takes:
        try:
            local_copy.read(offer, offered)
        except NeighbourGone as error:
            raise GroupBroken(str(error)) from None
        if onward is not None and not onward_takes:
            _send_all(group, onward, offered, device)
    else:
        _pass_on(group, source, offered, device, None if onward_takes else onward)
    if onward is not None:
        _hear(group, onward, device)
    _say(group, source, True, device)


def _divided(
    tensors: Sequence[torch.Tensor], offer: Offer | None
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What is offered, and the rest."""
    places = offer.spans if offer is not None else {}
    rest = [tensor for place, tensor in enumerate(tensors) if place not in places]
    return [tensors[place] for place in places], rest


def _send_all(group: Group, to: int, tensors: Sequence[torch.Tensor], device: torch.device) -> None:
    under_way: deque[Work] = deque()
    for parcel in chunks.outgoing(tensors, device):
        if len(under_way) == AHEAD:
            under_way.popleft().wait()
        under_way.append(group.start_send(chunks.content(parcel, device), to))
    _finish(under_way)


def _pass_on(
    group: Group, source: int, tensors: Sequence[torch.Tensor], device: torch.device, onward: int | None
) -> None:
    """Fill ``tensors`` with what rank ``source`` sends, and send it to rank ``onward`` as it comes in."""
    leaving: deque[Work] = deque()
    for parcel, landed in _arrivals(group, source, chunks.incoming(tensors, device), device):
        if onward is not None:
            leaving.append(group.start_send(landed, onward))
        chunks.settle(parcel, landed)
        if len(leaving) == AHEAD:
            leaving.popleft().wait()
    _finish(leaving)


def _arrivals(
    group: Group, source: int, expected: Iterator[Parcel], device: torch.device
) -> Iterator[tuple[Parcel, torch.Tensor]]:
    """Each parcel when its bytes are there; the next ones are under way meanwhile."""
    arriving: deque[tuple[Work, Parcel, torch.Tensor]] = deque()
    more = True
    while more or arriving:
        parcel = next(expected, None)
        more = parcel is not None
        if parcel is not None:
            landed = chunks.landing(parcel, device)
            arriving.append((group.start_receive(landed, source), parcel, landed))
        if arriving and (len(arriving) == AHEAD or not more):
            work, parcel, landed = arriving.popleft()
            work.wait()
            yield parcel, landed


# -- what cannot be handed over ---------------------------------------------------------------------------


def _trouble(node: Any) -> Exception | None:
    """Why ``node`` cannot be handed over; ``None`` if it can."""
    try:
        state_text.encode(node)
    except Exception as error:
        return error
    return None


def _unportable(state: Any, error: Exception) -> StateError:
    """The mistake that names the innermost part which cannot be handed over."""
    where, node = "", state
    for _ in range(DEEPEST):
        faulty = ((name, part, _trouble(part)) for name, part in _parts(where, node))
        first = next(((name, part, why) for name, part, why in faulty if why is not None), None)
        if first is None:
            break
        where, node, error = first
    return StateError(
        f"{where or 'the state'} is a {type(node).__qualname__} that cannot be handed to a worker that joins "
        f"({type(error).__name__}: {error}): let its state_dict() give {state_text.HOLDABLE}, and its "
        "load_state_dict() make the rest of them"
    )


def _parts(where: str, node: Any) -> Iterator[tuple[str, Any]]:
    """What a dict, list or tuple holds, each with its name for a person."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield (f"{where}[{key!r}]" if where else PASSED_AS.get(key, str(key))), value
    elif isinstance(node, list | tuple):
        for place, value in enumerate(node):
            yield f"{where}[{place}]", value


def _target(slot: Slot, twin: Any, device: torch.device) -> torch.Tensor:
    fits = isinstance(twin, torch.Tensor) and twin.shape == slot.shape and twin.dtype == slot.dtype
    if fits and not overlaps(twin):
        return twin.detach()
    return torch.empty(slot.shape, dtype=slot.dtype, device="cpu" if slot.on_cpu else device)


def _finish(works: deque[Work]) -> None:
    while works:
        works.popleft().wait()


def _say(group: Group, to: int, flag: bool, device: torch.device) -> None:
    group.send(torch.tensor([int(flag)], dtype=torch.int64, device=device), to)


def _hear(group: Group, source: int, device: torch.device) -> bool:
    flag = torch.zeros(1, dtype=torch.int64, device=device)
    group.receive(flag, source)
    return bool(flag)


def _send_header(group: Group, to: int, header: bytes, device: torch.device) -> None:
    group.send(torch.tensor([len(header)], dtype=torch.int64, device=device), to)
    group.send(torch.frombuffer(bytearray(header), dtype=torch.uint8).to(device), to)


def _receive_header(group: Group, source: int, device: torch.device) -> bytes:
    length = torch.zeros(1, dtype=torch.int64, device=device)
    group.receive(length, source)
    if not 0 < int(length) <= LONGEST_HEADER_BYTES:
        raise GroupBroken(f"rank {source} announced a state of {int(length)} bytes")
    header = torch.zeros(int(length), dtype=torch.uint8, device=device)
    group.receive(header, source)
    landed = header.cpu()
    return ctypes.string_at(landed.data_ptr(), landed.numel())
