"""Which runs a job's processes say they are, in words and, where it is safe and known where, with an address.

Pure. What a process says of itself is its own word, whoever wrote it: it is shown as text. It becomes a link
only below an http or https address that says no user and no password, and each part that a process said is
quoted, so that none can leave its place in the address.

Sources: W&B's environment variables (docs.wandb.ai/guides/track/environment-variables) and how its client
turns the address of its API into that of its pages; MLflow's tracking server, whose pages lie below ``#/``.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

Said = Mapping[str, str]
"""The names and values that one process says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run: by which ``tracker`` (for people), what it is called there, and its page if that is known."""

    tracker: str
    name: str
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracker:
    """How a tracker's runs are read from an environment.

    ``parts`` maps a part of an address to its variable, ``name`` writes the run from those parts: of each
    of its slashed pieces what is not said is left out. ``page`` is the address where the tracker says its
    base itself, in the variable ``base``.
    """

    key: str
    label: str
    parts: Mapping[str, str]
    name: tuple[str, ...] = ("{id}",)
    base: str | None = None
    page: str | None = None


TRACKERS: tuple[Tracker, ...] = (
    Tracker(
        key="wandb",
        label="W&B run",
        parts={"id": "WANDB_RUN_ID", "project": "WANDB_PROJECT", "entity": "WANDB_ENTITY"},
        name=("{entity}", "{project}", "{id}"),
        base="WANDB_BASE_URL",
        page="{base}/{entity}/{project}/runs/{id}",
    ),
    Tracker(
        key="wandb_sweep",
        label="W&B sweep",
        parts={"id": "WANDB_SWEEP_ID", "project": "WANDB_PROJECT", "entity": "WANDB_ENTITY"},
        name=("{entity}", "{project}", "{id}"),
        base="WANDB_BASE_URL",
        page="{base}/{entity}/{project}/sweeps/{id}",
    ),
    Tracker(
        key="mlflow",
        label="MLflow run",
        parts={"id": "MLFLOW_RUN_ID", "experiment": "MLFLOW_EXPERIMENT_ID"},
        base="MLFLOW_TRACKING_URI",
        page="{base}/#/experiments/{experiment}/runs/{id}",
    ),
    Tracker(
        key="mlflow_experiment",
        label="MLflow experiment",
        parts={"id": "MLFLOW_EXPERIMENT_ID"},
        base="MLFLOW_TRACKING_URI",
        page="{base}/#/experiments/{id}",
    ),
    Tracker(key="mlflow_name", label="MLflow experiment called", parts={"id": "MLFLOW_EXPERIMENT_NAME"}),
    Tracker(key="slurm", label="Slurm job", parts={"id": "SLURM_JOB_ID", "cluster": "SLURM_CLUSTER_NAME"}),
    Tracker(key="lsf", label="LSF job", parts={"id": "LSB_JOBID"}),
    Tracker(key="pbs", label="PBS job", parts={"id": "PBS_JOBID"}),
    Tracker(key="flux", label="Flux job", parts={"id": "FLUX_JOB_ID"}),
    Tracker(key="ray", label="Ray job", parts={"id": "RAY_JOB_ID"}),
    Tracker(key="kubeflow", label="Kubeflow run", parts={"id": "KFP_RUN_ID"}),
    Tracker(key="kubeflow_name", label="Kubeflow run called", parts={"id": "KFP_RUN_NAME"}),
    Tracker(key="clearml", label="ClearML task", parts={"id": "CLEARML_TASK_ID"}),
    Tracker(
        key="determined",
        label="Determined trial",
        parts={"id": "DET_TRIAL_ID", "experiment": "DET_EXPERIMENT_ID"},
        name=("{experiment}", "{id}"),
    ),
    Tracker(key="azureml", label="Azure ML run", parts={"id": "AZUREML_RUN_ID"}),
)
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")
_PATH = re.compile(r"[A-Za-z0-9/._~%+-]*")
_PART = re.compile(r"\{(\w+)\}")


def runs_of(rows: Iterable[Mapping[str, object]], pages: Mapping[str, str] | None = None) -> tuple[Run, ...]:
    """The runs in the rows of the query ``run_ids``, each once, the newest first within its tracker.

    ``pages`` are a site's own addresses by the tracker's key, with ``{id}`` and other parts in them.
    """
    sayings: dict[str, dict[str, str]] = {}
    for row in rows:
        sayings.setdefault(str(row["said"]), {})[str(row["name"])] = str(row["value"])
    runs = [
        run
        for tracker in TRACKERS
        for saying in sayings.values()
        if (run := _run(tracker, saying, (pages or {}).get(tracker.key))) is not None
    ]
    return tuple(dict.fromkeys(runs))


def base_of(address: str | None) -> str | None:
    """An address that links may be put below, without a slash at its end; ``None``: it is none.

    Only http and https, a plain host, a port at most, a plain path: no user, no query, nothing unprintable.
    """
    if not address or "\\" in address or any(c <= " " for c in address):
        return None
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return None
    host = parts.netloc.rpartition(":")[0] if port is not None else parts.netloc.removesuffix(":")
    good = parts.scheme in ("http", "https") and _HOST.fullmatch(host) and _PATH.fullmatch(parts.path)
    if not good or ".." in parts.path or parts.query or parts.fragment:
        return None
    where = host if port is None else f"{host}:{port}"
    return f"{parts.scheme}://{where}{parts.path.rstrip('/')}"


def trouble_with(pages: Mapping[str, str]) -> str | None:
    """What is wrong with a site's own addresses, for whoever wrote them; ``None``: nothing."""
    trackers = {tracker.key: tracker for tracker in TRACKERS}
    for key, page in pages.items():
        if key not in trackers:
            return f"run_pages knows no {key}; it takes {', '.join(trackers)}"
        if base_of(_before_parts(page)) is None:
            return (
                f"run_pages.{key} = {page!r} is no address to link to: begin it with http:// or https:// and "
                "a host, with no user, and put {id} after the host"
            )
        if unknown := sorted({*_PART.findall(page)} - {*trackers[key].parts}):
            return f"run_pages.{key} holds {{{unknown[0]}}}; it may hold {', '.join(trackers[key].parts)}"
    return None


def told_runs(runs: Iterable[Run]) -> tuple[str, ...]:
    """The runs as sentences for a terminal."""
    return tuple(
        f"It says it is {run.tracker} {run.name}{'' if run.url is None else f': {run.url}'}." for run in runs
    )


def _run(tracker: Tracker, link: Said, page: str | None) -> Run | None:
    parts = {part: link[name] for part, name in tracker.parts.items() if link.get(name)}
    if "id" not in parts:
        return None
    pieces = (_filled(piece, parts, plain=True) for piece in tracker.name)
    name = "/".join(piece for piece in pieces if piece)
    return Run(tracker=tracker.label, name=name, url=_page(tracker, link, parts, page))


def _page(tracker: Tracker, link: Said, parts: Said, page: str | None) -> str | None:
    """The site's own address first; else below what the process itself says, where it says that."""
    if page is not None:
        return _filled(page, parts) if base_of(_before_parts(page)) is not None else None
    base = base_of(link.get(tracker.base or ""))
    if base is None or tracker.page is None:
        return None
    below = _filled(tracker.page.removeprefix("{base}"), parts)
    return None if below is None else _of_pages(base, tracker) + below


def _before_parts(page: str) -> str:
    """What stands in front of everything that is put into an address: whole pieces of its path alone."""
    head = re.split(r"[{#?]", page)[0]
    return head.rpartition("/")[0] if page[len(head) :].startswith("{") else head


def _of_pages(base: str, tracker: Tracker) -> str:
    """Where the pages are, given where the API is: the cloud of W&B has them on different hosts."""
    if tracker.base != "WANDB_BASE_URL":
        return base
    plain = base.replace("://api.wandb.", "://wandb.")
    return plain.replace("://api.", "://app.")


def _filled(text: str, parts: Said, *, plain: bool = False) -> str | None:
    """``text`` with its parts put in, quoted unless ``plain``; ``None`` where one of them is not said."""
    names = _PART.findall(text)
    if any(part not in parts or (not plain and parts[part] in (".", "..")) for part in names):
        return None
    return _PART.sub(lambda result: parts[result[1]] if plain else quote(parts[result[1]], safe=""), text)
