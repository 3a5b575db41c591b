"""Run ids become links only below a known, plain http(s) address; whatever else they hold, they stay text."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.config.file import parse
from service.config.model import ConfigError
from service.summaries.run_links import TRACKERS, base_of, runs_of, told_runs, trouble_with

WANDB = {
    "WANDB_RUN_ID": "3k2",
    "WANDB_PROJECT": "sweep",
    "WANDB_ENTITY": "vision",
    "WANDB_BASE_URL": "https://wandb.example.org/",
}
EVIL = "https://x@evil.example/"


def said(*sayings: Mapping[str, str]) -> list[dict[str, Any]]:
    """Rows of the query ``run_ids``."""
    return [
        {"said": n, "name": name, "value": value}
        for n, each in enumerate(sayings, start=1)
        for name, value in each.items()
    ]


def pairs(
    *sayings: Mapping[str, str], pages: Mapping[str, str] | None = None
) -> list[tuple[str, str | None]]:
    return [(f"{run.tracker} {run.name}", run.url) for run in runs_of(said(*sayings), pages)]


def test_a_run_is_linked_below_the_address_that_its_process_says() -> None:
    assert pairs(WANDB) == [("W&B run vision/sweep/3k2", "https://wandb.example.org/vision/sweep/runs/3k2")]
    mlflow = {
        "MLFLOW_RUN_ID": "77",
        "MLFLOW_EXPERIMENT_ID": "5",
        "MLFLOW_TRACKING_URI": "http://ml.example.org:5000/sub",
    }
    assert pairs(mlflow) == [
        ("MLflow run 77", "http://ml.example.org:5000/sub/#/experiments/5/runs/77"),
        ("MLflow experiment 5", "http://ml.example.org:5000/sub/#/experiments/5"),
    ]


def test_the_cloud_has_its_pages_on_another_host_than_its_api() -> None:
    ((_, url),) = pairs(WANDB | {"WANDB_BASE_URL": "https://api.wandb.ai"})
    assert url == "https://wandb.ai/vision/sweep/runs/3k2"
    ((_, url),) = pairs(WANDB | {"WANDB_BASE_URL": "https://api.lab.example.org"})
    assert url == "https://app.lab.example.org/vision/sweep/runs/3k2"


def test_without_a_known_address_a_run_is_text() -> None:
    assert pairs({"WANDB_RUN_ID": "3k2"}) == [("W&B run 3k2", None)]
    assert pairs({key: WANDB[key] for key in WANDB if key != "WANDB_ENTITY"}) == [("W&B run sweep/3k2", None)]
    assert pairs({"MLFLOW_RUN_ID": "77", "MLFLOW_TRACKING_URI": "file:///home/ann/mlruns"}) == [
        ("MLflow run 77", None)
    ]
    assert pairs({"LSB_JOBID": "9", "SLURM_JOB_ID": "812"}) == [("Slurm job 812", None), ("LSF job 9", None)]
    assert pairs({"WANDB_PROJECT": "sweep"}) == []


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "JAVASCRIPT://wandb.example.org/%0aalert(1)",
        "data:text/html,x",
        "ftp://wandb.example.org",
        "//wandb.example.org",
        "wandb.example.org",
        "https://",
        "https:///path",
        "https://ann:secret@wandb.example.org",
        EVIL,
        "https://wandb.example.org\\@evil.example",
        "https://wandb.example.org:99999",
        "https://wandb.example.org:80:80",
        'https://wandb.example.org/" onmouseover=alert(1)',
        "https://wandb.example.org/<script>",
        "https://wandb.example.org/../..",
        "https://wandb.example.org/?next=",
        "https://wandb.example.org/#x",
        "https://wandb.example.org/ x",
        "https://wandb.example.org\n.evil.example",
        "https://w\u0430ndb.example.org",
        "",
    ],
)
def test_no_link_lies_below_an_address_that_is_not_plain(address: str) -> None:
    assert base_of(address) is None
    assert [url for _, url in pairs(WANDB | {"WANDB_BASE_URL": address})] == [None]


@pytest.mark.parametrize("address", ["https://wandb.example.org", "HTTPS://h:8080/a/b/", "http://[::1]:5000"])
def test_plain_addresses_are_known(address: str) -> None:
    assert base_of(address) is not None


HOSTILE = st.one_of(
    st.text(min_size=1, max_size=30),
    st.sampled_from(
        ["../../..", "..", ".", "/", "//evil.example", "?x", "#x", "a b", "%2e%2e", "\\", "@evil"]
    ),
)


@given(HOSTILE, HOSTILE, HOSTILE)
def test_no_name_leaves_its_place_in_an_address(run: str, project: str, entity: str) -> None:
    values = WANDB | {"WANDB_RUN_ID": run, "WANDB_PROJECT": project, "WANDB_ENTITY": entity}
    for _, url in pairs(values):
        if url is not None:
            parts = urlsplit(url)
            assert (parts.scheme, parts.netloc) == ("https", "wandb.example.org")
            assert (parts.query, parts.fragment) == ("", "")
            pieces = parts.path.split("/")
            assert len(pieces) == 5 and pieces[3] == "runs" and not {".", ".."} & set(pieces)


def test_processes_of_one_run_are_one_line_and_different_runs_are_each() -> None:
    again = {**WANDB, "WANDB_PROJECT": "sweep"}
    other = {**WANDB, "WANDB_RUN_ID": "4"}
    assert [name for name, _ in pairs(WANDB, again, other)] == [
        "W&B run vision/sweep/3k2",
        "W&B run vision/sweep/4",
    ]


def test_a_sites_own_address_goes_first_and_needs_all_its_parts() -> None:
    pages = {
        "wandb": "https://wandb.ai/{entity}/{project}/runs/{id}",
        "slurm": "https://portal.example.org/job?cluster={cluster}&id={id}",
    }
    ((_, url),) = pairs(WANDB, pages=pages)
    assert url == "https://wandb.ai/vision/sweep/runs/3k2"
    ((_, url),) = pairs({"SLURM_JOB_ID": "8&12", "SLURM_CLUSTER_NAME": "a"}, pages=pages)
    assert url == "https://portal.example.org/job?cluster=a&id=8%2612"
    assert pairs({"SLURM_JOB_ID": "812"}, pages=pages) == [("Slurm job 812", None)]


@pytest.mark.parametrize(
    ("pages", "says"),
    [
        ({"wandb": "https://wandb.ai/{entity}/{project}/runs/{id}"}, None),
        ({"wand": "https://wandb.ai/{id}"}, "knows no wand"),
        ({"wandb": "javascript:{id}"}, "is no address to link to"),
        ({"wandb": "https://{id}.evil.example/"}, "is no address to link to"),
        ({"wandb": "https://evil{id}/"}, "is no address to link to"),
        ({"slurm": "https://portal.example.org/{project}/{id}"}, "holds {project}"),
    ],
)
def test_an_address_that_is_none_is_refused(pages: dict[str, str], says: str | None) -> None:
    found = trouble_with(pages)
    assert (found is None) if says is None else (found is not None and says in found)


def test_the_configuration_refuses_it_with_its_place() -> None:
    good = '[dashboard.run_pages]\nslurm = "https://portal.example.org/{id}"\n'
    config = parse(good, origin="fallow.toml").config
    assert config.dashboard.run_pages == {"slurm": "https://portal.example.org/{id}"}
    with pytest.raises(ConfigError, match="is no address to link to"):
        parse('[dashboard.run_pages]\nslurm = "portal/{id}"\n', origin="fallow.toml")


def test_sentences_name_the_run_and_its_page() -> None:
    assert told_runs(runs_of(said(WANDB))) == (
        "It says it is W&B run vision/sweep/3k2: https://wandb.example.org/vision/sweep/runs/3k2.",
    )
    assert told_runs(runs_of(said({"LSB_JOBID": "9"}))) == ("It says it is LSF job 9.",)


def test_every_tracker_is_on_the_page_for_people(request: pytest.FixtureRequest) -> None:
    page = (request.config.rootpath / "docs" / "run-ids.md").read_text()
    for tracker in TRACKERS:
        assert f"`{tracker.key}`" in page
        assert all(f"`{name}`" in page for name in tracker.parts.values())
