"""The sources as people name them: ``nvml``, ``nodes``, ``dcgm=URL[,URL]`` and their kin. Pure."""

import difflib
from dataclasses import dataclass
from pathlib import PurePath
from urllib.parse import urlsplit

from service.errors import FallowError


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
class NodesSpec:
    """Machines that push what they measure (`fallow node`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySpec:
    """A recording."""

    path: PurePath


SourceSpec = NvmlSpec | SimulatedSpec | DcgmSpec | PeerSpec | NodesSpec | ReplaySpec

FORMS = "nvml, nodes, simulated, dcgm=URL[,URL], fallow=URL[,URL] or replay=FILE"


class BadSource(FallowError):
    """A source cannot be understood."""


def parse_specs(texts: tuple[str, ...]) -> tuple[SourceSpec, ...]:
    """The sources, in order, addresses of one kind gathered into one source. Raises ``BadSource``."""
    specs = tuple(dict.fromkeys(_parse(text.strip()) for text in texts))
    exporters = tuple(url for spec in specs if isinstance(spec, DcgmSpec) for url in spec.urls)
    peers = tuple(url for spec in specs if isinstance(spec, PeerSpec) for url in spec.urls)
    recordings = tuple(spec for spec in specs if isinstance(spec, ReplaySpec))
    if recordings and len(specs) > 1:
        raise BadSource("a recording is replayed alone: its time is not the time of other sources")
    if SimulatedSpec() in specs and len(specs) > 1:
        raise BadSource("the simulated cluster is shown alone: invented GPUs never stand beside real ones")
    return (
        *(spec for spec in specs if not isinstance(spec, DcgmSpec | PeerSpec)),
        *((DcgmSpec(urls=tuple(dict.fromkeys(exporters))),) if exporters else ()),
        *((PeerSpec(urls=tuple(dict.fromkeys(peers))),) if peers else ()),
    )


def _parse(text: str) -> SourceSpec:
    kind, _, rest = text.partition("=")
    match kind:
        case "nvml" | "nodes" | "simulated" if rest:
            raise BadSource(f"--source {kind} takes no value, but has {rest!r}")
        case "nvml":
            return NvmlSpec()
        case "nodes":
            return NodesSpec()
        case "simulated":
            return SimulatedSpec()
        case "dcgm":
            return DcgmSpec(urls=_urls(text, rest))
        case "fallow":
            return PeerSpec(urls=_urls(text, rest))
        case "replay" if rest:
            return ReplaySpec(path=PurePath(rest))
        case "replay":
            raise BadSource("--source replay needs a file: replay=FILE")
        case _:
            near = difflib.get_close_matches(
                kind, ("nvml", "nodes", "simulated", "dcgm", "fallow", "replay"), n=1
            )
            meant = f"; did you mean {near[0]}?" if near else ""
            raise BadSource(f"--source {text!r} is unknown{meant} A source is {FORMS}.")


def _urls(text: str, rest: str) -> tuple[str, ...]:
    urls = tuple(_url(text, each.strip()) for each in rest.split(",") if each.strip())
    if not urls:
        form = f"{text.partition('=')[0]}=http://node1:9400"
        raise BadSource(f"--source {text!r} names no address; write for example {form}")
    return urls


def _url(text: str, value: str) -> str:
    try:
        parts = urlsplit(value if "://" in value else f"http://{value}")
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fine = False
    if not fine:
        raise BadSource(f"{value!r} in --source {text!r} is not an http address such as http://node1:9400")
    return value
