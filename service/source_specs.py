"""The sources as people name them: ``nvml``, ``simulated``, ``dcgm=URL[,URL]`` and their kin. Pure."""

import difflib
from dataclasses import dataclass
from pathlib import PurePath
from urllib.parse import urlsplit

from service.trouble import Trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlSpec:
    """This machine's GPUs, through NVIDIA's driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedSpec:
    """The simulated cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DcgmSpec:
    """dcgm-exporters."""

    urls: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSpec:
    """Other Fallow services."""

    urls: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySpec:
    """A recording."""

    path: PurePath


SourceSpec = NvmlSpec | SimulatedSpec | DcgmSpec | PeerSpec | ReplaySpec

FORMS = "nvml, simulated, dcgm=URL[,URL], fallow=URL[,URL] or replay=FILE"


class BadSource(Trouble):
    """A source cannot be understood."""


def parse_specs(texts: tuple[str, ...]) -> tuple[SourceSpec, ...]:
    """The sources, in order. Raises ``BadSource``."""
    specs = tuple(_parse(text.strip()) for text in texts)
    if len(set(specs)) < len(specs):
        raise BadSource(f"a source is named twice among {', '.join(texts)}")
    return specs


def _parse(text: str) -> SourceSpec:
    kind, _, rest = text.partition("=")
    match kind:
        case "nvml" | "simulated" if rest:
            raise BadSource(f"--source {kind} takes no value, but has {rest!r}")
        case "nvml":
            return NvmlSpec()
        case "simulated":
            return SimulatedSpec()
        case "dcgm":
            return DcgmSpec(urls=_urls(text, rest, default_path="/metrics"))
        case "fallow":
            return PeerSpec(urls=_urls(text, rest, default_path=""))
        case "replay" if rest:
            return ReplaySpec(path=PurePath(rest))
        case "replay":
            raise BadSource("--source replay needs a file: replay=FILE")
        case _:
            near = difflib.get_close_matches(kind, ("nvml", "simulated", "dcgm", "fallow", "replay"), n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise BadSource(f"--source {text!r} is unknown{meant} A source is {FORMS}.")


def _urls(text: str, rest: str, *, default_path: str) -> tuple[str, ...]:
    urls = tuple(_url(text, each.strip(), default_path) for each in rest.split(",") if each.strip())
    if not urls:
        raise BadSource(
            f"--source {text!r} names no address; write for example {text.partition('=')[0]}=http://node1:9400"
        )
    return urls


def _url(text: str, given: str, default_path: str) -> str:
    full = given if "://" in given else f"http://{given}"
    try:
        parts = urlsplit(full)
        port_fine = parts.port is None or parts.port > 0
    except ValueError:
        port_fine = False
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_fine:
        raise BadSource(f"{given!r} in --source {text!r} is not an http address such as http://node1:9400")
    return full if parts.path not in ("", "/") else f"{full.rstrip('/')}{default_path}"
