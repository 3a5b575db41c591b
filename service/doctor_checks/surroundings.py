"""What ``fallow init`` finds: a driver, Slurm, a Prometheus, exporters, Kubernetes; and what is to be read.

Each is looked at once and quickly, and nothing is changed. Of Prometheus and exporters only addresses are
asked that were given, that are the usual ones of this machine, or that the Prometheus itself scrapes.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from analytics import text
from service.doctor_checks import checks, slurm
from service.doctor_checks.results import Finding, Verdict

if TYPE_CHECKING:
    from collector.sources.prometheus.server import Access, PrometheusServer
    from service.config.model import Config

USUAL_PROMETHEUS = "http://127.0.0.1:9090"
USUAL_EXPORTER = "http://127.0.0.1:9400"
"""The default ports of Prometheus and of dcgm-exporter."""
SCRAPED_MS = 10 * 60_000
"""An exporter that was not scraped for ten minutes is gone, or was renamed."""
YEAR_MS, DAY_MS = 365 * 86_400_000, 86_400_000
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
KUBECONFIG = Path("~/.kube/config")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One thing looked for. ``sources`` are what ``[collect] sources`` is to have for it; ``history`` is the
    address of a Prometheus whose past can be imported."""

    finding: Finding
    sources: tuple[str, ...] = ()
    history: str | None = None
    accounting: bool = False
    """Whether Slurm answers, and its accounting can be asked for the past."""
    exporters: tuple[str, ...] = ()
    """The addresses from which the Prometheus scrapes exporters; asked one by one next."""


def look_around(
    config: "Config", access: "Access", *, given: bool, exporters: Sequence[str], now_ms: int
) -> Iterator[Seen]:
    """All that can be found, in the order in which it is told; blocks for some seconds at most.

    ``access`` is the Prometheus to ask, ``given`` whether somebody named it; ``exporters`` are addresses that
    were named.
    """
    yield _gpus()
    yield _slurm(config)
    history = _prometheus(access, has_address=given, now_ms=now_ms)
    yield history
    yield _exporters(config, exporters, history.exporters)
    yield Seen(finding=_kubernetes(os.environ))


def sources_of(processes: Sequence[Seen]) -> tuple[str, ...]:
    """What is to be read from now on; empty: nothing was found that is alive. Pure."""
    return tuple(source for each in processes for source in each.sources)


def history_of(processes: Sequence[Seen]) -> str | None:
    """The Prometheus whose past can be imported. Pure."""
    return next((each.history for each in processes if each.history is not None), None)


def has_accounting(processes: Sequence[Seen]) -> bool:
    """Whether a workload manager's past can be imported. Pure."""
    return any(each.accounting for each in processes)


def _slurm(config: "Config") -> Seen:
    from collector.managers.slurm.past import why_none

    finding = slurm.slurm(config)
    if finding.verdict is Verdict.ABSENT:
        return Seen(finding=finding)
    why = why_none()
    past = "its past is in sacct" if why is None else f"its past is not there: {why}"
    return Seen(finding=replace(finding, found=f"{finding.found}; {past}"), accounting=why is None)


def _gpus() -> Seen:
    (finding, *_), _ = checks.driver(wanted=False)
    return Seen(finding=finding, sources=() if finding.verdict is Verdict.ABSENT else ("nvml",))


def _prometheus(access: "Access", *, has_address: bool, now_ms: int) -> Seen:
    from collector.sources.prometheus.import_history import NoDcgmMetrics, dcgm_metrics
    from collector.sources.prometheus.server import ImportFailed, PrometheusServer

    def found(verdict: Verdict, what: str, advice: str = "") -> Finding:
        return Finding(subject="Prometheus", verdict=verdict, found=what, advice=advice)

    try:
        with PrometheusServer(access) as server:
            metrics = dcgm_metrics(server, now_ms - YEAR_MS, now_ms)
            began_ms, gpus = _past(server, metrics[0], now_ms)
            exporters = server.scraped_from('{__name__=~"(?i:dcgm)_.+"}', now_ms - SCRAPED_MS, now_ms)
    except NoDcgmMetrics:
        what = f"{access.url} answers, and has nothing of dcgm-exporter"
        return Seen(
            finding=found(Verdict.LIMITED, what, "have it scrape dcgm-exporter, port 9400 of each node")
        )
    except ImportFailed as failed:
        if has_address:
            return Seen(finding=found(Verdict.TROUBLE, str(failed)))
        what = f"none answers at {access.url}"
        return Seen(finding=found(Verdict.ABSENT, what, "name yours with --prometheus URL"))
    what = (
        f"{access.url}: {text.many(gpus, 'GPU')}, {text.length((now_ms - began_ms) / 1000)} of history "
        f"since {text.clock(began_ms)}, {text.many(len(exporters), 'exporter')} scraped now"
    )
    return Seen(finding=found(Verdict.GOOD, what), history=access.url, exporters=exporters)


def _past(server: "PrometheusServer", metric: str, now_ms: int) -> tuple[int, float]:
    """When the history begins, to a day or a few hours, and the most GPUs at once."""
    by_day = server.counts(f"count({metric})", now_ms - YEAR_MS, now_ms, DAY_MS)
    first_ms = (by_day[0][0] if by_day else now_ms) - DAY_MS
    finely = server.counts(f"count({metric})", first_ms, now_ms, max(60_000, (now_ms - first_ms) // 1000))
    return finely[0][0] if finely else now_ms, max((count for _, count in (*by_day, *finely)), default=0)


def _exporters(config: "Config", named: Sequence[str], scraped: Sequence[str]) -> Seen:
    """Those that are named or scraped, asked as the service will; else the usual one of this machine."""
    urls = tuple(dict.fromkeys((*named, *scraped))) or (USUAL_EXPORTER,)
    finding = checks.scraped(urls, "dcgm", config)
    if finding.verdict is not Verdict.TROUBLE:
        return Seen(finding=finding, sources=(f"dcgm={','.join(urls)}",))
    if named or scraped:
        places = ", ".join(sorted({urlsplit(url).netloc for url in urls}))
        advice = f"from this machine none of {places} answers; run Fallow where they do, or open their port"
        return Seen(finding=replace(finding, subject="dcgm-exporter", advice=advice))
    what = f"none answers at {USUAL_EXPORTER}"
    advice = "name yours with --exporter URL, once for each"
    return Seen(finding=Finding(subject="dcgm-exporter", verdict=Verdict.ABSENT, found=what, advice=advice))


def _kubernetes(environment: Mapping[str, str], inside: Path = SERVICE_ACCOUNT) -> Finding:
    """Whether this is a place of Kubernetes': its pods are named by dcgm-exporter, nothing else is asked."""
    named = environment.get("KUBECONFIG", "").split(":")[0]
    file = Path(named) if named else KUBECONFIG.expanduser()
    where = "this is a pod" if inside.is_dir() else f"{file} is here" if file.is_file() else None
    if where is None:
        return Finding(
            subject="Kubernetes", verdict=Verdict.ABSENT, found="no kubeconfig, and this is no pod"
        )
    what = f"{where}: who holds which GPU is in dcgm-exporter's labels; `[collect] kubernetes` asks itself"
    return Finding(subject="Kubernetes", verdict=Verdict.GOOD, found=what)
