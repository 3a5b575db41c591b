"""Values as JSON and back: how steps, plans and entries are kept. Pure, and exact both ways.

Driven by the types that the values declare, so a new field needs nothing here. Where a field may hold one of
several dataclasses, the name of the one that it holds is written beside its fields, under ``is``. Reading is
tolerant in one direction only: what a newer version wrote beside the fields known here is passed over, a
missing field takes its default, and a name or value that means nothing here raises ``Unreadable``, because an
act that is only half understood must not be judged.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

Value = TypeVar("Value")

TAG = "is"


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
    return _read(kind, tree, _name(kind))


def _write(value: Any, kind: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        hints = _hints(type(value))
        tree = {item.name: _write(getattr(value, item.name), hints[item.name]) for item in fields(value)}
        return {TAG: type(value).__name__, **tree} if len(_classes(kind)) > 1 else tree
    if isinstance(value, Enum):
        return value.value
    inner = _inner(kind)
    match value:
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


def _read(kind: Any, tree: Any, where: str) -> Any:
    if isinstance(kind, NewType):
        return _read(kind.__supertype__, tree, where)
    if get_origin(kind) in (Union, UnionType):
        return _read_union(kind, tree, where)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple:
        found = _expect(list, tree, where)
        kinds = _kinds_of(inner, len(found))
        if len(kinds) != len(found):
            raise Unreadable(f"{where}: {len(found)} values where {len(kinds)} belong")
        pairs = zip(kinds, found, strict=True)
        return tuple(_read(each, part, f"{where}[{at}]") for at, (each, part) in enumerate(pairs))
    if origin is frozenset:
        return frozenset(_read(inner[0], each, where) for each in _expect(list, tree, where))
    if origin is not None and issubclass(origin, Mapping):
        pairs = _expect(dict, tree, where).items()
        return {_key(inner[0], key, where): _read(inner[1], each, f"{where}.{key}") for key, each in pairs}
    return _read_plain(kind, tree, where)


def _read_plain(kind: Any, tree: Any, where: str) -> Any:
    if is_dataclass(kind):
        return _read_class(kind, tree, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(tree)
        except ValueError as error:
            known = ", ".join(str(each.value) for each in kind)
            raise Unreadable(f"{where}: {tree!r} is none of {known}") from error
    if kind is float and _is_not_finite(tree):
        return float(tree[TAG])
    if kind is float and isinstance(tree, int) and not isinstance(tree, bool):
        return float(tree)
    if kind is NoneType:
        return _expect(NoneType, tree, where)
    return _expect(kind, tree, where)


def _read_union(kind: Any, tree: Any, where: str) -> Any:
    if tree is None and NoneType in get_args(kind):
        return None
    classes = _classes(kind)
    if len(classes) > 1:
        name = _expect(dict, tree, where).get(TAG)
        found = next((each for each in classes if each.__name__ == name), None)
        if found is None:
            known = ", ".join(each.__name__ for each in classes)
            raise Unreadable(f"{where}: {name!r} is none of {known}; a newer Fallow may have written it")
        return _read_class(found, tree, where)
    others = [each for each in get_args(kind) if each is not NoneType]
    if len(others) == 1:
        return _read(others[0], tree, where)
    if float in others and _is_not_finite(tree):
        return float(tree[TAG])
    if not isinstance(tree, tuple(others)):
        raise Unreadable(f"{where}: {type(tree).__name__} where {_name(kind)} belongs")
    return tree


def _read_class(kind: Any, tree: Any, where: str) -> Any:
    found, hints = _expect(dict, tree, where), _hints(kind)
    values = {}
    for item in fields(kind):
        if item.name in found:
            values[item.name] = _read(hints[item.name], found[item.name], f"{where}.{item.name}")
        elif item.default is MISSING and item.default_factory is MISSING:
            raise Unreadable(f"{where}: {item.name} is missing")
    return kind(**values)


def _is_not_finite(tree: Any) -> bool:
    """JSON has no infinity and no NaN: those are written as an object of one name."""
    return isinstance(tree, dict) and tree.get(TAG) in ("inf", "-inf", "nan")


def _expect(kind: Any, tree: Any, where: str) -> Any:
    if not isinstance(tree, kind) or (isinstance(tree, bool) and kind is not bool):
        raise Unreadable(f"{where}: {type(tree).__name__} where {_name(kind)} belongs")
    return tree


def _key(kind: Any, key: str, where: str) -> Any:
    plain = kind.__supertype__ if isinstance(kind, NewType) else kind
    if plain is not int:
        return _read(kind, key, where)
    try:
        return int(key)
    except ValueError as error:
        raise Unreadable(f"{where}: {key!r} where a whole number belongs") from error


def _inner(kind: Any) -> tuple[Any, ...]:
    """What a collection declares to hold; of ``X | None`` what ``X`` declares."""
    if get_origin(kind) in (Union, UnionType):
        others = [each for each in get_args(kind) if each is not NoneType]
        return get_args(others[0]) if len(others) == 1 else ()
    return get_args(kind)


def _kinds_of(inner: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    return (inner[0],) * count if len(inner) == 2 and inner[1] is Ellipsis else inner


def _classes(kind: Any) -> tuple[Any, ...]:
    members = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return tuple(each for each in members if is_dataclass(each))


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _name(kind: Any) -> str:
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_name(each) for each in get_args(kind))
    return str(getattr(kind, "__name__", kind))
