"""The base of all that the API answers: plain dataclasses that a client reads from JSON and a service writes.

They are plain because a verb must start quickly: pydantic takes longer to import than ``fallow --version``
takes in all. pydantic understands them all the same, so the OpenAPI document is made of these very classes
(``__pydantic_config__``; docs/decisions/0068-one-schema.md). A field's text in the document is the string
below it in the source.

Reading is tolerant: what a newer service says beside the known fields is passed over, and what an older one
leaves out takes the field's default, which says that it is not known.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import (
    Any,
    ClassVar,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

A = TypeVar("A", bound="Answer")
C = TypeVar("C")

Row = dict[str, object]
"""A JSON object whose keys a named query or a service chose; who reads a value looks at what it is first."""

RowOrRows = Row | list[Row]
"""What a route answers: an object, or a list of them."""


def json_name(field: str) -> str:
    """A field's name in JSON: ``is`` of ``is_``, which Python keeps for itself."""
    return field.removesuffix("_")


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def answer(kind: type[C]) -> type[C]:
    """Make a class of answers a dataclass that is read-only to the type checker.

    Only its constructor is generated: the rest of a frozen dataclass takes 0.4 ms more a class, at each start
    of a verb.
    """
    return dataclass(kw_only=True, eq=False, repr=False)(kind)


class Answer:
    """An object of an answer; made by ``read`` it also knows the JSON that it was read from (``sent``)."""

    __pydantic_config__: ClassVar[dict[str, object]] = {}

    @property
    def sent(self) -> Row:
        """The JSON object as the service sent it, for those who pass it on; else as it would be sent."""
        row: Row | None = self.__dict__.get("_sent")
        return to_row(self) if row is None else row

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in to_row(self).items())})"


def described(schema: dict[str, object], kind: type) -> None:
    """Give each field of a class in the OpenAPI document its text from the source. Reads files."""
    for name, text in _texts_of(kind).items():
        properties = schema.get("properties")
        part = properties.get(json_name(name)) if isinstance(properties, dict) else None
        if part is not None:
            part["description"] = text


Answer.__pydantic_config__ = {
    "alias_generator": json_name,
    "json_schema_extra": described,
    "json_schema_serialization_defaults_required": True,
}
"""The defaults are for readers of older services: this one says every field."""


def to_row(answer: Answer) -> Row:
    """The JSON object of an answer, its fields in their order."""
    return {json_name(each): _plain(getattr(answer, each)) for each in _names(cast(Any, type(answer)))}


def read(kind: type[A], row: Mapping[str, object]) -> A:
    """The answer in a JSON object. Raises ``ValueError`` where a field is missing that every service says."""
    values: dict[str, object] = {}
    for name, key, convert, needed in _parts(cast(Any, kind)):
        if key in row:
            values[name] = convert(row[key])
        elif needed:
            raise ValueError(f"an answer ({kind.__name__}) without its field {key!r}")
    result = kind(**values)
    result.__dict__["_sent"] = row
    return result


def _plain(value: object) -> object:
    match value:
        case Answer():
            return to_row(value)
        case tuple() | list():
            return [_plain(each) for each in value]
        case Mapping():
            return {str(key): _plain(each) for key, each in value.items()}
        case _:
            return value


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(cast(Any, kind)))


Convert = Callable[[Any], Any]


@cache
def _parts(kind: type) -> tuple[tuple[str, str, Convert, bool], ...]:
    """The fields of a class: name, name in JSON, what reads it, and whether it has no default."""
    hints = get_type_hints(kind)
    return tuple(
        (
            each.name,
            json_name(each.name),
            _reader(hints[each.name]),
            each.default is MISSING and each.default_factory is MISSING,
        )
        for each in fields(cast(Any, kind))
    )


def _reader(kind: Any) -> Convert:
    """What makes a field's value of JSON: objects become answers, lists tuples; the rest is as it is."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        readers = [_reader(each) for each in inner if each is not type(None)]
        one = next((each for each in readers if each is not _as_it_is), _as_it_is)
        return one if one is _as_it_is else lambda value: None if value is None else one(value)
    if origin is tuple:
        each = _reader(inner[0]) if inner[-1] is Ellipsis else _as_it_is
        return lambda value: tuple(each(part) for part in value or ())
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return lambda value: dict(value or {})
    if is_dataclass(kind):
        return lambda value: read(cast(Any, kind), value)
    return _as_it_is


def _as_it_is(value: object) -> object:
    return value


@cache
def _texts_of(kind: type) -> dict[str, str]:
    """The strings below the fields of a class and its bases, by the fields' names."""
    import ast
    import inspect
    import textwrap
    from itertools import pairwise

    texts: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if not is_dataclass(each):
            continue
        (statement,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        body = cast(ast.ClassDef, statement).body
        for declared, below in pairwise(body):
            match declared, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    texts[name] = inspect.cleandoc(text)
    return texts
