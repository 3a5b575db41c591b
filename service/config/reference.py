"""``docs/configuration.md``, written from the classes that the configuration is read into. Pure.

So the page cannot say anything else than the program: keys, defaults and bounds are the fields', a table's
words are its class's docstring, a key's are its ``about``. Only what no class can say stands here: how the
file works, and the environment variables. ``fallow config --reference`` prints the page; a test holds the
committed one against it.
"""

import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from service.config.model import Config

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


VARIABLES = {
    "FALLOW_DATA": "the store's folder, where `--data` is not given (else `system.data`, else "
    "`~/.local/state/fallow`)",
    "FALLOW_SOCKET": "for readers and launchers: the Unix socket of the service to ask",
    "FALLOW_URL": "for readers and launchers: a service elsewhere, instead of the one of DATA",
    "FALLOW_TOKEN": "for readers and launchers: the token for it, instead of `DATA/token`",
    "FALLOW_PROJECT": "for `fallow run`: the project, where `--project` is not given",
    "FALLOW_BACKEND": "for elastic trainings: `gloo` sums over copies on the host though each worker has a "
    "GPU of its own ([why one might](elastic-guarantees.md#not-there-yet))",
    "FALLOW_DASHBOARD_HOSTS": "for a dashboard that is started by hand: names that it answers to beside the "
    "machine's own (`fallow up` takes `[dashboard] hosts`)",
    "FALLOW_PROBE, FALLOW_HAND": "for the service, set by its unit: the sockets of the two processes with "
    "root's powers ([under systemd](install.md))",
    "FALLOW_PEER_TOKEN, FALLOW_PEER_TOKEN_FILE": "for `fallow=URL`: the token of the peers, or a file with a "
    "line `URL TOKEN` for each",
    "FALLOW_PROMETHEUS_TOKEN": "for `fallow import prometheus`: sent to that server as a bearer's token "
    "(else `--token-file`)",
    "FALLOW_PROMETHEUS_PASSWORD": "for `fallow import prometheus --login NAME`: the password (else "
    "`--password-file`)",
}
"""What people may set. What Fallow itself sets for its own children is not theirs, and not here."""

_HEAD = """\
<!-- Written by `fallow config --reference` from service/config: change the classes, not this page. -->

# Configuration

Fallow runs without any. What is set stands in one TOML file, `DATA/fallow.toml` (or the one that `--config`
names), and is checked whole before anything starts: an unknown key is refused with its line and the nearest
known one. A value comes from the default, else the file, else a flag; `fallow config` prints every value in
force and where it came from (`--json` for programs). The service reads the file when it starts.

```toml
[collect]
sources = ["nvml", "dcgm=http://gpu-a:9400,http://gpu-b:9400"]

[projects]
ann = "vision"

[prices]
currency = "EUR"
[prices.per_gpu_hour]
"NVIDIA H100 80GB HBM3" = 2.90
"*" = 1.20
```

Environment variables carry paths and secrets only:

"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A key: its default and bounds as they are printed, and what it means."""

    key: str
    default: str
    bounds: str
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A table of the file: its header, what it is for, its words, and its keys."""

    header: str
    title: str
    words: str
    rows: tuple[Row, ...]


def sections() -> tuple[Section, ...]:
    """Every table that the file may have, in the order of ``Config``."""
    hints = get_type_hints(Config)
    return tuple(section for item in fields(Config) for section in _sections(item, hints[item.name]))


def page() -> str:
    """The whole page, in Markdown."""
    variables = [
        (", ".join(f"`{each}`" for each in name.split(", ")), about) for name, about in VARIABLES.items()
    ]
    parts = [_HEAD + _table(("variable", "meaning"), variables)]
    return "".join([*parts, *map(_section_text, sections())])


def _sections(item: Field[Any], hint: object) -> Iterator[Section]:
    inner = get_args(hint)
    if is_dataclass(hint) and isinstance(hint, type):
        yield from _of_class(item.name, hint)
    elif get_origin(hint) is Mapping and is_dataclass(inner[1]) and isinstance(inner[1], type):
        yield from _of_class(f"{item.name}.NAME", inner[1])
    else:
        title, _, words = str(item.metadata["about"]).partition(". ")
        yield Section(header=item.name, title=title, words=words, rows=())


def _of_class(header: str, kind: "type[DataclassInstance]") -> Iterator[Section]:
    title, _, words = (inspect.getdoc(kind) or "").partition("\n\n")
    rows = tuple(_row(item) for item in fields(kind) if "about" in item.metadata)
    yield Section(header=header, title=title.removesuffix("."), words=words, rows=rows)
    for item in fields(kind):
        if item.metadata.get("others"):
            yield from _of_class(f"{header}.NAME", get_args(get_type_hints(kind)[item.name])[1])


def _row(item: Field[Any]) -> Row:
    low, high = item.metadata.get("low"), item.metadata.get("high")
    bounds = "" if low is None and high is None else f"{_plain(low)} to {_plain(high)}"
    return Row(key=item.name, default=_default(item), bounds=bounds, about=item.metadata["about"])


def _default(item: Field[Any]) -> str:
    value: object = item.default
    make = item.default_factory
    if value is MISSING and make is not MISSING:
        value = make()
    match value:
        case _ if value is MISSING:
            return "(needed)"
        case bool():
            return "`true`" if value else "`false`"
        case str():
            return f'`"{value}"`'
        case int() | float():
            return _plain(value)
        case tuple() if value:
            listed = ", ".join(f'"{each}"' if isinstance(each, str) else _plain(each) for each in value)
            return f"`[{listed}]`"
        case _:
            return "none"


def _plain(number: float | None) -> str:
    """A number as TOML takes it; nothing for an open end."""
    if number is None:
        return "any"
    return str(int(number)) if float(number).is_integer() else str(number)


def _section_text(section: Section) -> str:
    title = section.title[:1].lower() + section.title[1:]
    words = "\n\n".join(_wrapped(each) for each in section.words.split("\n\n"))
    parts = [f"\n## `[{section.header}]`: {title}\n", f"{words}\n" * bool(words)]
    if section.rows:
        columns = ("key", "default", "bounds", "meaning")
        bounded = any(row.bounds for row in section.rows)
        cells = [(f"`{row.key}`", row.default, row.bounds, row.about) for row in section.rows]
        keep = [number for number in range(4) if bounded or number != 2]
        parts.append(_table([columns[at] for at in keep], [[line[at] for at in keep] for line in cells]))
    return "\n".join(part for part in parts if part)


def _wrapped(paragraph: str) -> str:
    """A paragraph as the other pages have it; a block of code as it is."""
    if paragraph.startswith("```"):
        return paragraph
    return textwrap.fill(paragraph, width=110, break_long_words=False, break_on_hyphens=False)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rows = [columns, ["---"] * len(columns), *rows]
    lines = (" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows)
    return "".join(f"| {line} |\n".replace("|  |", "| |") for line in lines)
