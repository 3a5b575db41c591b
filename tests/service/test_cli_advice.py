"""``fallow advise``, ``plan``, ``explain`` and ``whatif`` against a real service, and on its file."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from analytics.assess import assess, finding_rows, unjudged_rows
from analytics.query import catalogue
from analytics.thresholds import Thresholds
from collector.sources.simulated.cluster import SimulatedCluster
from collector.store.judgements import Judgement
from service import data_folder as client_place
from service.client import connect
from service.config.file import parse
from service.config.model import ConfigError
from tests.service.conftest import Running, verb
from tests.stores import open_store

pytestmark = pytest.mark.slow

CONFIG = """
[prices]
currency = "EUR"

[quotas.vision]
gpus = 2
"""
SIMULATED_NAMESPACES = ("genomics", "language", "vision")
"""Of the notebooks; those of `serving` are servers, which no rule pauses."""
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
START_MS = 1_761_696_000_000  # 2025-10-29, a Wednesday
END_MS = START_MS + 3 * DAY_MS - 2 * HOUR_MS  # a Friday night
TICK_MS = 30_000


@dataclass
class Stored:
    """A DATA folder with a past that has been judged, and no service."""

    data: Path


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Three days of one cluster, the same each time, judged at their end as a service would."""
    data = tmp_path_factory.mktemp("advice")
    (data / "fallow.toml").write_text(CONFIG)
    with open_store(client_place.store_file(data)) as store:
        for history in SimulatedCluster(3, nodes=2).history(START_MS, END_MS, TICK_MS):
            store.write_history(history)
        store.set_prices({"*": (2.0, "EUR")})
        with store.reader() as reader:
            analysis = assess(reader, END_MS - 1, Thresholds(), TICK_MS)
        judgement = Judgement(findings=finding_rows(analysis), unjudged=unjudged_rows(analysis))
        store.write_judgement(judgement, END_MS)
    made = Stored(data=data)
    assert rows(made, "advise"), "somebody is idle on a Friday night"
    return made


def test_what_a_header_promises_is_in_every_row(busy: Stored) -> None:
    """``@never_null``: the types of rows rest on it (service/schemas/rows.pyi)."""
    given = {"from_ts": START_MS, "to_ts": END_MS, "as_of": END_MS, "job": None}
    empty, broken = [], []
    with connect(busy.data) as client:
        job = client.rows("jobs", from_ts=START_MS, to_ts=END_MS)[0]["job"]
        given |= {"job": job, "jobs": [job], "step_s": 3600}
        for name, spec in catalogue().items():
            if not spec.never_null:
                continue
            asked = {each.name: given[each.name] for each in spec.parameters if each.name in given}
            answered = client.rows(name, **asked)
            empty += [] if answered else [name]
            broken += [
                f"{name}.{each}" for each in spec.never_null if None in [row[each] for row in answered]
            ]
    assert not broken
    assert {"findings", "gpus_now", "jobs", "job_gpus", "gpu_names", "waste"}.isdisjoint(empty)


def rows(service: Stored, *words: str) -> list[dict[str, Any]]:
    done = verb(*words, "--json", data=service.data)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_advise_has_evidence_gain_risk_and_confidence(busy: Stored) -> None:
    found = rows(busy, "advise")
    for row in found:
        assert row["what"] and row["why"] and row["risk"] and row["evidence"], row
        assert 0 <= row["confidence"] <= 1
        assert row["gain_gpu_hours"] is None or row["gain_gpu_hours"] >= 0
        assert row["currency"] in ("EUR", None)
    gains = [row["gain_gpu_hours"] for row in found if row["gain_gpu_hours"] is not None]
    assert gains == sorted(gains, reverse=True)


def test_nobody_consented_so_every_step_only_tells(busy: Stored) -> None:
    verbs = {step["verb"] for row in rows(busy, "advise") for step in row["steps"]}
    assert verbs <= {"notify"}


def test_advise_all_names_every_job_that_nothing_is_said_of(busy: Stored) -> None:
    found = rows(busy, "advise", "--all")
    silent = [row for row in found if "reason" in row]
    assert silent and all(row["reason"] and row["class"] for row in silent)
    shown = verb("advise", data=busy.data).stdout
    assert "GPU-hours" in shown and "risk:" in shown and "% sure" in shown


def test_explain_says_why_and_why_not_and_what_would_change_it(busy: Stored) -> None:
    advice = rows(busy, "advise")[0]
    (by_id,) = rows(busy, "explain", advice["id"])
    assert by_id["kind"] == "advice" and by_id["advice"][0]["id"] == advice["id"]
    (by_job,) = rows(busy, "explain", advice["job"])
    assert by_job["kind"] == "job" and by_job["facts"]
    assert by_job["why_not"], "there is always a next rung, or a reason against it"
    (by_gpu,) = rows(busy, "explain", advice["gpus"][0])
    assert by_gpu["kind"] == "gpu"
    assert any(advice["job"] in fact for fact in by_gpu["facts"])
    place = by_gpu["name"]
    assert rows(busy, "explain", place)[0]["name"] == place
    shown = verb("explain", advice["job"], data=busy.data).stdout
    assert "Advised" in shown and "Why nothing else" in shown


def test_explain_of_nothing_names_the_nearest(busy: Stored) -> None:
    done = verb("explain", "slurm:nobody", data=busy.data)
    assert done.returncode == 2
    assert "no running job, GPU or advice is called 'slurm:nobody'" in done.stderr


def test_plan_starts_a_wished_job_where_there_is_room_and_says_why_not_elsewhere(busy: Stored) -> None:
    small, huge = rows(busy, "plan", "--want", "vision:0.5"), rows(busy, "plan", "--want", "vision:4000")
    assert any(row.get("verb") == "start" or row.get("reason") for row in small)
    refused = [row for row in huge if row.get("refused") and row["job"] == "want:1"]
    assert refused and refused[0]["reason"]
    disturbing = [row for row in small if row.get("verb") not in ("start", "hold for job")]
    assert not any(row.get("approved") for row in disturbing), "all other modes only advise"
    shown = verb("plan", "--want", "vision:1", data=busy.data).stdout
    assert "quota" in shown and "fair share" in shown


def test_a_model_is_meant_by_a_part_of_its_name(busy: Stored) -> None:
    known = rows(busy, "plan", "--want", "vision:1:a100")
    unknown = rows(busy, "plan", "--want", "vision:1:b300")
    assert any("the cluster has" in (row.get("reason") or "") for row in unknown), unknown
    assert not any("the cluster has 0" in (row.get("reason") or "") for row in known), known


@pytest.mark.parametrize(
    "wish", ["vision", "vision:", "vision:x", ":3", "vision:-1", "vision:1.5", "vision:0"]
)
def test_senseless_wish_is_refused_with_an_example(busy: Stored, wish: str) -> None:
    done = verb("plan", "--want", wish, data=busy.data)
    assert done.returncode == 2 and "for example vision:4" in done.stderr


def test_whatif_replays_the_past_with_its_error_bar(busy: Stored) -> None:
    found = {row["action"]: row for row in rows(busy, "whatif", "--since", "2d")}
    assert set(found) == {
        *("tell", "pause", "right-size", "cap-memory", "pack", "schedule", "consolidate", "resize")
    }
    assert found["schedule"]["jobs"] == 0, "nobody submitted anything"
    assert found["tell"]["gpu_hours"] >= found["pause"]["gpu_hours"] >= 0
    assert {"earned_cases", "earned_median_error", "earned_total_error"} <= set(found["tell"])
    kept = {row["action"]: row for row in rows(busy, "whatif", "--since", "2d", "--consented")}
    assert kept["pause"]["gpu_hours"] == 0, "nobody consented"


def test_whatif_says_whom_charging_idle_hours_would_move(busy: Stored) -> None:
    found = rows(busy, "whatif", "--charging")
    assert len(found) > 1 and {"project", "part", "part_charged", "held_idle_ratio"} <= set(found[0])
    assert sum(row["part"] for row in found) == pytest.approx(1)
    assert sum(row["part_charged"] for row in found) == pytest.approx(1)
    shrunk = found[0]
    assert shrunk["part_charged"] < shrunk["part"], "somebody held GPUs that lay idle"
    assert all(0 <= row["held_idle_ratio"] <= row["allocated_ratio"] <= 1 for row in found)
    shown = verb("whatif", "--since", "2d", data=busy.data).stdout
    assert "charged once more" in shown and shrunk["project"] in shown
    (busy.data / "fallow.toml").write_text(CONFIG + "[deciding]\nidle_surcharge = 1\n")
    try:
        charged = {row["project"]: row["part"] for row in rows(busy, "whatif", "--charging")}
    finally:
        (busy.data / "fallow.toml").write_text(CONFIG)
    assert charged == {row["project"]: pytest.approx(row["part_charged"]) for row in found}


def test_whatif_shows_what_a_rule_would_have_done_before_it_is_switched_on(busy: Stored) -> None:
    places = ", ".join(f'"{each}"' for each in SIMULATED_NAMESPACES)
    command = '["/bin/true"]'
    rule = f"[hooks.pods]\nnamespaces = [{places}]\npause = {command}\nresume = {command}\nidle_hours = "
    (busy.data / "fallow.toml").write_text(f"{CONFIG}{rule}4\n")
    try:
        (found,) = rows(busy, "whatif", "--rules")
        shown = verb("whatif", "--rules", data=busy.data).stdout
        (busy.data / "fallow.toml").write_text(f"{CONFIG}{rule}24\n")
        (longer,) = rows(busy, "whatif", "--rules")
    finally:
        (busy.data / "fallow.toml").write_text(CONFIG)
    assert found["times"] >= found["jobs"] >= found["people"] >= 1 and found["unnamed"] == 0, found
    assert all(job.startswith("pod:") for job in found["disturbed"])
    assert found["gpu_hours"] > longer["gpu_hours"] >= 0 and found["times"] > longer["times"]
    assert "By the rule of hook pods" in shown and found["disturbed"][0] in shown
    assert "No hook has a rule" in verb("whatif", "--rules", data=busy.data).stdout


def test_verbs_ask_a_running_service_the_same_way(service: Running) -> None:
    for words in (["advise"], ["plan"], ["whatif", "--since", "1d"]):
        done = verb(*words, "--json", data=service.data)
        assert done.returncode == 0, done.stderr
        assert isinstance(json.loads(done.stdout), list)


def test_without_a_store_each_verb_says_what_to_do(tmp_path: Path) -> None:
    for words in (["advise"], ["plan"], ["explain", "x"], ["whatif"]):
        done = verb(*words, data=tmp_path / "none")
        assert done.returncode == 2, words
        assert "fallow serve" in done.stderr or "no store" in done.stderr, done.stderr


def test_quota_cycle_is_named(busy: Stored, tmp_path: Path) -> None:
    ring = tmp_path / "ring.toml"
    ring.write_text('[quotas.a]\nparent = "b"\n[quotas.b]\nparent = "a"\n')
    done = verb("plan", "--config", str(ring), data=busy.data)
    assert done.returncode == 2 and "a" in done.stderr and "Traceback" not in done.stderr


def test_quotas_consent_and_modes_are_read_from_the_file() -> None:
    text = """
    [quotas.lab]
    [quotas.vision]
    gpus = 4
    limit = 8
    parent = "lab"
    [consent]
    preemptible = ["*"]
    [consent.opt_out]
    ann = ["pack"]
    [modes]
    reclaim = "ask"
    [advice]
    horizon_s = 7200
    """
    config = parse(text, origin="f").config
    assert (config.quotas["vision"].gpus, config.quotas["vision"].parent) == (4.0, "lab")
    assert config.consent.opt_out == {"ann": ("pack",)}
    assert (config.modes.reclaim, config.modes.terminate) == ("ask", "off")
    assert config.advice.horizon_s == 7200


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("quotas = 1", r"write \[quotas.NAME\]"),
        ("[quotas]\nvision = 8", r"f:2: quotas.vision is a table"),
        ("[quotas.vision]\ngpu = 8", "did you mean quotas.vision.gpus"),
        ("[quotas.vision]\ngpus = -1", "out of bounds"),
        ("[quotas.vision]\ngpus = 4\nlimit = 2", "a limit of 2 GPUs is below the quota of 4"),
        ('[quotas.a]\nparent = "lab"', r"f:2: quotas.a.parent names lab, .* write \[quotas.lab\] too"),
        ('[quotas.lab]\n[quotas.a]\nparent = "labs"', "f:3: quotas.a.parent names labs, .* mean lab?"),
        ('[quotas.a]\nparent = "a"', "f:2: projects a -> a are their own ancestors"),
        ('[modes]\npack = "on"', "one of off, advise, ask, auto"),
        ('[consent.opt_out]\nann = ["packing"]', "the classes are"),
        ("[advice]\nhorizon_s = 1", "out of bounds"),
    ],
)
def test_senseless_quotas_and_modes_are_refused_by_name(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse(text, origin="f")
