"""From TOML and flags to ``Config``: every key checked where it enters, every value with its origin.

A mistake is refused with the file, the line and the nearest known key, because a setting that is silently
ignored is worse than none.
"""

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from analytics.thresholds import FORMER_SETTINGS
from collector.toml_text import BadToml, read_toml
from service.config.fields import Misplaced
from service.config.model import Config, ConfigError, Setting, SystemConfig
from service.trust.believed import SYSTEM_FILE, beyond_root, read_text

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


FILE_NAME = "fallow.toml"


D = TypeVar("D", bound="DataclassInstance")
Bounds = tuple[float | None, float | None]
"""The least and the most that a value may be; an open end is ``None``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effective:
    """The configuration in force, where each value came from, and ``remarks`` on what has no effect."""

    config: Config
    settings: tuple[Setting, ...]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a value was found, to be named in messages and origins."""

    origin: str
    lines: Mapping[tuple[str, ...], int]

    def at(self, path: tuple[str, ...]) -> str:
        line = self.lines.get(path)
        return self.origin if line is None else f"{self.origin}:{line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """A key as it is spoken of in a message: its place, and its dotted name."""

    where: tuple[str, ...]
    place: _Place
    origins: Mapping[str, str]

    def within(self, key: str) -> "_Named":
        return replace(self, where=(*self.where, key))

    def __str__(self) -> str:
        name = ".".join(self.where)
        return f"{self.origins.get(name, self.place.at(self.where))}: {name}"


def load(path: Path | None, flags: Mapping[str, tuple[str, object]] | None = None) -> Effective:
    """The configuration of one file and the command line; reads the file.

    ``flags`` maps a dotted key to the flag's name and its value. Raises ``ConfigError``, and ``Untrusted``
    for a file that somebody else could have written.
    """
    if path is None:
        return parse("", origin=FILE_NAME, flags=flags)
    try:
        text = read_text(path)
    except (FileNotFoundError, NotADirectoryError):
        return parse("", origin=FILE_NAME, flags=flags)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the configuration {path}: {error}") from error
    effective = parse(text, origin=path.name, flags=flags)
    if effective.config.system != SystemConfig() and path.absolute() != SYSTEM_FILE:
        raise ConfigError(
            f"{path}: [system] is root's word for the whole machine, and counts in {SYSTEM_FILE} alone"
        )
    rule = next((name for name, hook in effective.config.hooks.items() if hook.idle_hours), None)
    fault = None if rule is None else beyond_root(path)
    if fault is not None:
        raise ConfigError(
            f"{path}: hooks.{rule}.idle_hours stands for the consent of others, so nobody but root may write "
            f"the file, and {fault}"
        )
    return effective


def parse(text: str, *, origin: str, flags: Mapping[str, tuple[str, object]] | None = None) -> Effective:
    """The same from text. Raises ``ConfigError``."""
    try:
        tree = read_toml(text)
    except BadToml as error:
        raise ConfigError(f"{origin} is not valid TOML: {error}") from error
    origins: dict[str, str] = {}
    place = _Place(origin=origin, lines=_lines(text))
    remarks = _without_former(tree, place)
    _claim(Config, tree, (), place, origins)
    for key, (flag, value) in (flags or {}).items():
        _graft(tree, key.split("."), value)
        origins[key] = flag
    config = _build(Config, tree, (), place, origins)
    settings = tuple(
        Setting(key=key, value=value, origin=origins.get(key, "default"))
        for key, value in _flatten(config, ())
    )
    return Effective(config=config, settings=settings, remarks=remarks)


def _without_former(tree: Mapping[str, object], place: _Place) -> tuple[str, ...]:
    """Take out what was a setting once and is a fixed number now; a sentence for each that says another one.

    An upgrade doesn't keep a service from starting.
    """
    findings = tree.get("findings")
    if not isinstance(findings, dict):
        return ()
    former = {name: findings.pop(name) for name in FORMER_SETTINGS if name in findings}
    return tuple(
        f"{place.at(('findings', name))}: findings.{name} = {value} has no effect: it is "
        f"{FORMER_SETTINGS[name]:g} everywhere, so that findings and the ledger agree. Take the line out."
        for name, value in former.items()
        if value != FORMER_SETTINGS[name]
    )


def _claim(
    kind: "type[DataclassInstance]",
    tree: Mapping[str, object],
    path: tuple[str, ...],
    place: _Place,
    out: dict[str, str],
) -> None:
    """Note the origin of every value in the file; an unknown key is an error."""
    hints, rest = get_type_hints(kind), _others(kind)
    for key, value in tree.items():
        where = (*path, key)
        other = None if rest is None else _named_tables(hints[rest])
        if other is not None and isinstance(value, dict) and (key not in hints or key == rest):
            _claim(other, value, where, place, out)
            continue
        if key not in hints or key == rest:
            raise ConfigError(_unknown(place.at(where), where, tuple(hints), kind))
        if is_dataclass(hints[key]):
            if not isinstance(value, dict):
                raise ConfigError(
                    f"{place.at(where)}: {'.'.join(where)} is a table: write [{'.'.join(where)}]"
                )
            _claim(hints[key], value, where, place, out)
        elif (named := _named_tables(hints[key])) is not None:
            if not isinstance(value, dict):
                raise ConfigError(f"{place.at(where)}: {key} holds tables: write [{key}.NAME]")
            for name, inner in value.items():
                if not isinstance(inner, dict):
                    at = place.at((*where, name))
                    raise ConfigError(f"{at}: {key}.{name} is a table: write [{key}.{name}]")
                _claim(named, inner, (*where, name), place, out)
        elif isinstance(value, dict) and get_origin(hints[key]) is Mapping:
            out.update({".".join((*where, inner)): place.at((*where, inner)) for inner in value})
        else:
            out[".".join(where)] = place.at(where)


def _others(kind: "type[DataclassInstance]") -> str | None:
    """The field that takes the tables whose names are no field of ``kind``; ``None`` where there is none."""
    return next((item.name for item in fields(kind) if item.metadata.get("others")), None)


def _named_tables(hint: object) -> "type[DataclassInstance] | None":
    """The dataclass of a table of tables, one for each name; ``None`` for any other key."""
    kind = get_args(hint)[1] if get_origin(hint) is Mapping else None
    return kind if is_dataclass(kind) and isinstance(kind, type) else None


def _unknown(at: str, where: tuple[str, ...], names: tuple[str, ...], kind: "type[DataclassInstance]") -> str:
    near = difflib.get_close_matches(where[-1], names, n=1, cutoff=0.4)
    meant = f"; did you mean {'.'.join((*where[:-1], near[0]))}?" if near else "."
    rest = _others(kind)
    if rest is not None:
        names = (*(key for key in names if key != rest), f"a table [{'.'.join(where[:-1])}.NAME]")
    elsewhere = [
        f"{name}.{where[-1]}"
        for name, hint in get_type_hints(Config).items()
        if is_dataclass(hint) and hint is not kind and where[-1] in get_type_hints(hint)
    ]
    if elsewhere:
        meant = f"; did you mean {elsewhere[0]}?"
    return f"{at}: unknown key {'.'.join(where)}{meant} Known here: {', '.join(sorted(names))}."


def _graft(tree: dict[str, Any], path: list[str], value: object) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
    tree[path[-1]] = value


def _build(
    kind: type[D], tree: Mapping[str, object], path: tuple[str, ...], place: _Place, origins: dict[str, str]
) -> D:
    hints = get_type_hints(kind)
    values: dict[str, object] = {}
    for item in fields(kind):
        where = (*path, item.name)
        if item.metadata.get("others"):
            tables = _named_tables(hints[item.name])
            assert tables is not None, "tables of other names have a class of their own"
            values[item.name] = {
                name: _build(tables, _table(inner), (*path, name), place, origins)
                for name, inner in tree.items()
                if _is_other(kind, name, inner)
            }
        elif is_dataclass(hints[item.name]):
            values[item.name] = _build(hints[item.name], _table(tree.get(item.name)), where, place, origins)
        elif (each := _named_tables(hints[item.name])) is not None:
            values[item.name] = {
                name: _build(each, _table(inner), (*where, name), place, origins)
                for name, inner in _table(tree.get(item.name)).items()
            }
        elif item.name in tree:
            named = _Named(where=where, place=place, origins=origins)
            bounds = (item.metadata.get("low"), item.metadata.get("high"))
            values[item.name] = _value(hints[item.name], tree[item.name], bounds, named)
        elif item.default is MISSING and item.default_factory is MISSING:
            raise ConfigError(f"{place.origin}: {'.'.join(where)} is needed and has no default")
    try:
        return kind(**values)
    except Misplaced as error:
        raise ConfigError(f"{place.at((*path, *error.where))}: {error}") from error
    except ValueError as error:
        raise ConfigError(f"{place.at(path)}: {error}") from error


def _table(value: object) -> Mapping[str, object]:
    """A table of the file, of which ``_claim`` has said that it is one; empty where it isn't there."""
    return value if isinstance(value, dict) else {}


def _is_other(kind: "type[DataclassInstance]", name: str, inner: object) -> bool:
    rest = _others(kind)
    return isinstance(inner, dict) and (name == rest or name not in {item.name for item in fields(kind)})


def _value(hint: object, value: object, bounds: Bounds, named: _Named) -> object:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{named} is a list, not {value!r}")
        return tuple(_scalar(inner[0], each, bounds, named) for each in value)
    if origin is Mapping:
        if not isinstance(value, dict):
            raise ConfigError(f"{named} is a table of names and values, not {value!r}")
        return {str(k): _value(inner[1], v, bounds, named.within(str(k))) for k, v in value.items()}
    assert isinstance(hint, type), "what is no list and no table is a number, truth or text"
    return _scalar(hint, value, bounds, named)


def _scalar(hint: type, value: object, bounds: Bounds, named: _Named) -> object:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = _as_float(value)
    if not isinstance(value, hint) or (hint is not bool and isinstance(value, bool)):
        raise ConfigError(f"{named} is {_SPOKEN.get(hint, hint.__name__)}, not {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{named} is a number, not {value}")
    low, high = bounds
    if isinstance(value, int | float) and (
        (low is not None and value < low) or (high is not None and value > high)
    ):
        raise ConfigError(f"{named} = {value} is out of bounds: {_range(low, high)}")
    return value


def _as_float(value: int) -> float:
    """The number; an endless one, which is refused, for what is beyond all floats."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


_SPOKEN = {int: "a whole number", float: "a number", bool: "true or false", str: "text in quotes"}


def _range(low: float | None, high: float | None) -> str:
    if high is None:
        return f"at least {low}"
    return f"at most {high}" if low is None else f"{low} to {high}"


def _flatten(value: "DataclassInstance", path: tuple[str, ...]) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = []
    for item in fields(value):
        inner, where = getattr(value, item.name), (*path, item.name)
        if item.metadata.get("others"):
            rows += [row for key, each in inner.items() for row in _flatten(each, (*path, key))]
        elif is_dataclass(inner) and not isinstance(inner, type):
            rows += _flatten(inner, where)
        elif isinstance(inner, Mapping) and inner and all(map(is_dataclass, inner.values())):
            for key, each in inner.items():
                rows += _flatten(each, (*where, key))
        elif isinstance(inner, Mapping) and inner:
            rows += [(".".join((*where, key)), each) for key, each in inner.items()]
        else:
            rows.append((".".join(where), inner))
    return rows


_HEADER = re.compile(r"^\s*\[\s*([^\]\[]+?)\s*\]")
_KEY = re.compile(r"""^\s*((?:[\w.*-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([^.\s"']+))\s*\.?""")


def _lines(text: str) -> dict[tuple[str, ...], int]:
    """The line of each key: tomllib does not say, and a message without a line is a search."""
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = _parts(header[1])
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, *_parts(key[1])), number)
    return lines


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(next(filter(None, match.groups()), "") for match in _PART.finditer(dotted))
