"""Values as JSON and back: how steps, plans and entries are kept. Pure, and exact both ways.

Driven by the types that the values declare, so a new field needs nothing here. Where a field may hold one of
several dataclasses, the tag of the one that it holds (``advisor.tags``) is written beside its fields, under
``is``; what was written under a former tag is read. Reading is tolerant in one direction only: what a newer
version wrote beside the fields known here is passed over, a missing field takes its default, and a name or
value that means nothing here raises ``Unreadable``, because an act that is only half understood must not be
judged.

What a type means is worked out once: a register of ten thousand entries is read at every start.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

from advisor.tags import FORMER, FORMER_FIELDS, tag_of

TAG = "is"

PLAIN = frozenset({str, int, bool, NoneType})
"""What JSON writes as it is."""

Reader = Callable[[Any], Any]


class Unreadable(ValueError):
    """What was written cannot be read here; the message says where, what was found and what was expected."""


def to_text(value: object, kind: Any = None) -> str:
    """``value`` as JSON in one line; ``kind`` when it is read back as a union, for example ``Step``."""
    return json.dumps(to_tree(value, kind), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def from_text(kind: Any, text: str) -> Any:
    """The value of this kind (a dataclass, or a union of some) in ``text``. Raises ``Unreadable``."""
    try:
        tree = json.loads(text)
    except ValueError as error:
        raise Unreadable(f"reading {_name(kind)}: not valid JSON: {error}") from error
    return from_tree(kind, tree)


def to_tree(value: object, kind: Any = None) -> Any:
    """``value`` as what JSON knows; see ``to_text``."""
    return _write(value, type(value) if kind is None else kind)


def from_tree(kind: Any, tree: Any) -> Any:
    """The value of this kind in what JSON knows. Raises ``Unreadable``."""
    try:
        return _reader(kind)(tree)
    except _Amiss as error:
        raise Unreadable(f"{_name(kind)}{error.where}: {error.found}") from error


class _Amiss(Exception):
    """Something that cannot be read; on its way out it learns where it lay."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.found, self.where = problem, ""

    def within(self, where: str) -> "_Amiss":
        """The same, one step further out."""
        self.where = where + self.where
        return self


def _write(value: Any, kind: Any) -> Any:
    type_: Any = type(value)
    if type_ in PLAIN:
        return value
    parts = _declared_fields(type_)
    if parts is not None:
        tree: dict[str, Any] = {TAG: tag_of(type_)} if len(_classes(kind)) > 1 else {}
        for name, declared in parts:
            each = getattr(value, name)
            tree[name] = each if type(each) in PLAIN else _write(each, declared)
        return tree
    inner = _inner(kind)
    match value:
        case Enum():
            return value.value
        case Mapping():
            return {str(key): _write(each, inner[-1] if inner else type(each)) for key, each in value.items()}
        case frozenset():
            return sorted(_write(each, inner[0] if inner else type(each)) for each in value)
        case tuple():
            kinds = _kinds_of(inner, len(value)) if inner else tuple(type(each) for each in value)
            return [_write(each, each_kind) for each, each_kind in zip(value, kinds, strict=True)]
        case float() if not math.isfinite(value):
            return {TAG: str(value)}
        case _:
            return value


@cache
def _declared_fields(kind: type) -> tuple[tuple[str, Any], ...] | None:
    """The fields of a dataclass and what each is declared to hold; ``None`` of any other type."""
    if not is_dataclass(kind):
        return None
    hints = get_type_hints(kind)
    return tuple((item.name, hints[item.name]) for item in fields(kind))


@cache
def _reader(kind: Any) -> Reader:
    """What reads a value of this kind, or raises ``_Amiss``."""
    if isinstance(kind, NewType):
        return _reader(kind.__supertype__)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _union_reader(kind)
    if origin is tuple:
        return _tuple_reader(inner)
    if origin is frozenset:
        read_each = _reader(inner[0])
        return lambda tree: frozenset(_each(read_each, _expect(list, tree)))
    if origin is not None and issubclass(origin, Mapping):
        return _mapping_reader(*inner)
    if is_dataclass(kind):
        return _class_reader(kind)
    return _plain_reader(kind)


def _plain_reader(kind: Any) -> Reader:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return lambda tree: _read_enum(kind, tree)
    if kind is float:
        return _read_float
    if kind not in PLAIN:
        return lambda tree: _expect(kind, tree)

    def read(tree: Any) -> Any:
        return tree if type(tree) is kind else _expect(kind, tree)

    return read


def _read_enum(kind: type[Enum], tree: Any) -> Enum:
    try:
        return kind(tree)
    except ValueError as error:
        values = ", ".join(str(each.value) for each in kind)
        raise _Amiss(f"{tree!r} is none of {values}") from error


def _read_float(tree: Any) -> float:
    if type(tree) is float:
        return tree
    if type(tree) is int:
        return float(tree)
    if _is_not_finite(tree):
        return float(tree[TAG])
    result: float = _expect(float, tree)
    return result


def _tuple_reader(inner: tuple[Any, ...]) -> Reader:
    if len(inner) == 2 and inner[1] is Ellipsis:
        read_each = _reader(inner[0])
        return lambda tree: tuple(_each(read_each, _expect(list, tree)))
    readers = tuple(_reader(each) for each in inner)

    def read(tree: Any) -> Any:
        result = _expect(list, tree)
        if len(result) != len(readers):
            raise _Amiss(f"{len(result)} values where {len(readers)} belong")
        return tuple(_at(read, part, at) for at, (read, part) in enumerate(zip(readers, result, strict=True)))

    return read


def _each(read: Reader, items: list[Any]) -> list[Any]:
    return [_at(read, part, at) for at, part in enumerate(items)]


def _at(read: Reader, part: Any, at: int) -> Any:
    try:
        return read(part)
    except _Amiss as error:
        raise error.within(f"[{at}]") from None


def _mapping_reader(key_kind: Any, kind: Any) -> Reader:
    read_key, read_each = _key_reader(key_kind), _reader(kind)

    def read(tree: Any) -> dict[Any, Any]:
        result = {}
        for key, part in _expect(dict, tree).items():
            key_value = read_key(key)
            try:
                result[key_value] = read_each(part)
            except _Amiss as error:
                raise error.within(f".{key}") from None
        return result

    return read


def _key_reader(kind: Any) -> Reader:
    plain = kind.__supertype__ if isinstance(kind, NewType) else kind
    if plain is not int:
        return _reader(kind)

    def read(key: Any) -> int:
        try:
            return int(key)
        except ValueError as error:
            raise _Amiss(f"{key!r} where a whole number belongs") from error

    return read


def _union_reader(kind: Any) -> Reader:
    members = [each for each in get_args(kind) if each is not NoneType]
    read = _tagged_reader(kind) if len(_classes(kind)) > 1 else _some_reader(kind, members)
    if len(members) == len(get_args(kind)):
        return read
    return lambda tree: None if tree is None else read(tree)


def _tagged_reader(kind: Any) -> Reader:
    readers = {tag_of(each): _reader(each) for each in _classes(kind)}

    def read(tree: Any) -> Any:
        name = _expect(dict, tree).get(TAG)
        result = readers.get(FORMER.get(name, name)) if isinstance(name, str) else None
        if result is None:
            tags = ", ".join(readers)
            raise _Amiss(f"{name!r} is none of {tags}; a newer Fallow may have written it")
        return result(tree)

    return read


def _some_reader(kind: Any, members: list[Any]) -> Reader:
    if len(members) == 1:
        return _reader(members[0])
    several, has_float = tuple(members), float in members

    def read(tree: Any) -> Any:
        if has_float and _is_not_finite(tree):
            return float(tree[TAG])
        if not isinstance(tree, several):
            raise _Amiss(f"{type(tree).__name__} where {_name(kind)} belongs")
        return tree

    return read


def _class_reader(kind: Any) -> Reader:
    def read(tree: Any) -> Any:
        if type(tree) is not dict:
            _expect(dict, tree)
        values = {}
        for field, former, read_part, needed in _read_parts(kind):
            name = field if field in tree else former
            if name in tree:
                try:
                    values[field] = read_part(tree[name])
                except _Amiss as error:
                    raise error.within(f".{name}") from None
            elif needed:
                raise _Amiss(f"{field} is missing")
        return kind(**values)

    return read


@cache
def _read_parts(kind: Any) -> tuple[tuple[str, str, Reader, bool], ...]:
    """The fields of a dataclass: name, former name or the same, what reads it, whether it has no default."""
    hints, formers = get_type_hints(kind), FORMER_FIELDS.get(kind.__name__, {})
    return tuple(
        (
            item.name,
            formers.get(item.name, item.name),
            _reader(hints[item.name]),
            item.default is MISSING and item.default_factory is MISSING,
        )
        for item in fields(kind)
    )


def _is_not_finite(tree: Any) -> bool:
    """JSON has no infinity and no NaN: those are written as an object of one name."""
    return isinstance(tree, dict) and tree.get(TAG) in ("inf", "-inf", "nan")


def _expect(kind: Any, tree: Any) -> Any:
    if not isinstance(tree, kind) or (isinstance(tree, bool) and kind is not bool):
        raise _Amiss(f"{type(tree).__name__} where {_name(kind)} belongs")
    return tree


@cache
def _inner(kind: Any) -> tuple[Any, ...]:
    """What a collection declares to hold; of ``X | None`` what ``X`` declares."""
    if get_origin(kind) in (Union, UnionType):
        others = [each for each in get_args(kind) if each is not NoneType]
        return get_args(others[0]) if len(others) == 1 else ()
    return get_args(kind)


def _kinds_of(inner: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    return (inner[0],) * count if len(inner) == 2 and inner[1] is Ellipsis else inner


@cache
def _classes(kind: Any) -> tuple[Any, ...]:
    members = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return tuple(each for each in members if is_dataclass(each))


def _name(kind: Any) -> str:
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_name(each) for each in get_args(kind))
    return str(getattr(kind, "__name__", kind))
