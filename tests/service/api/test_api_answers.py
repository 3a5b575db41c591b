"""Every answer has a shape that names all its fields, and a running service answers as its shapes say."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter

from advisor.jobs.model import Command as AnyCommand
from advisor.jobs.model import Elasticity, ExitReason, JobRecord, JobState, Sharing, Submission
from advisor.jobs.model import Launcher as LauncherRecord
from advisor.jobs.model import Report as ReportRecord
from advisor.planner.limits import Mode
from collector.managers.slurm.sacct_text import NEEDED
from collector.model import JobKind
from service.schemas import control, records, service
from service.schemas.answer import Answer, json_name, read, to_row
from service.usecases.accounting import Counts
from tests.service.api.conftest import Door, submission

Tree = dict[str, Any]

FREE_FORM = {
    ("GET", "/v1/query/{name}"): "its columns depend on the query's name; /v1/queries lists them",
}
"""Routes whose JSON has no shape of its own, and why."""
FREE_FIELDS = {
    ("PlanStep", "evidence"): "each policy names its own figures",
}
"""Fields that may hold anything, and why."""
NO_JSON = {
    ("GET", "/v1/export"),
    ("GET", "/metrics"),
    ("GET", "/v1/jobs/{job}/directives"),
}


@pytest.fixture(scope="module")
def document(door: Door) -> Tree:
    found: Tree = door.ask("GET", "/openapi.json", who="")[1]
    return found


def routes(document: Tree) -> Iterator[tuple[str, str, Tree]]:
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            yield method.upper(), path, route


def successes(route: Tree) -> Iterator[Tree]:
    for status, answer in route["responses"].items():
        if status.startswith("2"):
            yield from (each for each in answer.get("content", {}).values())


def test_every_route_says_the_shape_of_what_it_answers(document: Tree) -> None:
    for method, path, route in routes(document):
        shapes = [each.get("schema") for each in successes(route)]
        assert shapes, (method, path)
        assert all(shapes), f"{method} {path} answers something without a shape"
        if (method, path) not in {*NO_JSON, *FREE_FORM}:
            assert all(_is_named(each) for each in shapes if each), f"{method} {path}: {shapes}"


def _is_named(shape: Tree) -> bool:
    """Whether it is one of ours, a list of one, or one of several."""
    if shape.get("type") == "array":
        return _is_named(shape["items"])
    return "$ref" in shape or (bool(shape.get("anyOf")) and all(map(_is_named, shape["anyOf"])))


def _answered(document: Tree) -> set[str]:
    """The shapes that answers are made of."""
    waiting = [each["schema"] for *_, route in routes(document) for each in successes(route)]
    waiting += [{"$ref": "#/components/schemas/Refusal"}]
    found: set[str] = set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            name = str(part.get("$ref", "")).rpartition("/")[2]
            if name and name not in found:
                found.add(name)
                waiting.append(document["components"]["schemas"][name])
            waiting += [each for each in part.values() if isinstance(each, dict | list)]
    return found


def test_every_field_of_an_answer_has_a_type_and_a_meaning(document: Tree) -> None:
    shapes = document["components"]["schemas"]
    names = _answered(document)
    assert {"Job", "JobDetail", "Submission", "Report", "Command", "Plan", "Health"} <= names
    for name in sorted(names):
        assert shapes[name].get("description"), name
        for field, shape in shapes[name]["properties"].items():
            assert shape.get("description"), f"{name}.{field} says nothing of what it means"
            loose = not any(key in shape for key in ("type", "$ref", "anyOf", "const", "enum"))
            loose = loose or shape.get("additionalProperties") is True
            assert loose == ((name, field) in FREE_FIELDS), f"{name}.{field}: {shape}"


def test_field_that_is_a_number_says_its_unit(document: Tree) -> None:
    shapes = document["components"]["schemas"]
    units = {"_ms": "ms", "_s": "econds", "_bytes": "bytes", "_hours": "hours"}
    for name in sorted(_answered(document)):
        for field, shape in shapes[name]["properties"].items():
            for ending, unit in units.items():
                if field.endswith(ending):
                    assert unit in shape["description"], f"{name}.{field}: {shape['description']}"


def test_job_has_each_field_in_the_document_that_it_has_in_an_answer(document: Tree) -> None:
    shapes = document["components"]["schemas"]
    records_of = {
        "Job": JobRecord,
        "Submission": Submission,
        "Report": ReportRecord,
        "Launcher": LauncherRecord,
    }
    for name, kind in records_of.items():
        kept = set(kind.__dataclass_fields__)
        more = {"job", "name", "user", "project"} if name == "Job" else set()
        assert set(shapes[name]["properties"]) == kept | more
        assert set(shapes[name]["required"]) == kept | more
    commands = set().union(*(each.__dataclass_fields__ for each in get_args(AnyCommand)))
    assert set(shapes["Command"]["properties"]) == {"is", *commands}


def test_words_of_closed_sets_are_those_of_the_program() -> None:
    for words, enum in (
        (records.Stood, JobState),
        (records.Ended, ExitReason),
        (records.Apart, Sharing),
        (records.Submission.__annotations__["mobility"], Elasticity),
        (get_args(control.Switch.__annotations__["modes"])[1], Mode),
    ):
        assert set(get_args(words)) - {""} == {each.value for each in enum}
    about = TypeAdapter(records.Submission).json_schema(mode="serialization")["properties"]["kind"]
    assert all(each.value in about["description"] for each in JobKind)


def strict(shape: Any, document: Tree) -> Any:
    """The same shape, where an object may hold nothing but its fields."""
    if isinstance(shape, list):
        return [strict(each, document) for each in shape]
    if not isinstance(shape, dict):
        return shape
    made = {key: strict(each, document) for key, each in shape.items()}
    return {**made, "additionalProperties": False} if isinstance(made.get("properties"), dict) else made


def lacking(value: Any, kind: Any, at: str = "") -> list[str]:
    """The fields of an answer that its class has not, and those that it should have and has not."""
    if isinstance(value, list):
        return [each for number, part in enumerate(value) for each in lacking(part, kind, f"{at}[{number}]")]
    whole = read(kind, value)
    known = {json_name(each) for each in kind.__dataclass_fields__}
    wrong = [f"{at}.{each}" for each in set(value) ^ known if each in value or kind is not records.Command]
    for name in kind.__dataclass_fields__:
        part, raw = getattr(whole, name), value.get(json_name(name))
        parts = zip(part, raw, strict=True) if isinstance(part, tuple) and raw is not None else [(part, raw)]
        for made, sent in parts:
            if isinstance(made, Answer):
                wrong += lacking(sent, type(made), f"{at}.{name}")
    return wrong


def test_running_service_answers_in_its_shapes(door: Door) -> None:
    def ask(method: str, path: str, kind: Any, body: object = None, status: int = 200) -> Any:
        answered, found = door.ask(method, path, body=body)
        assert answered == status, found
        assert lacking(found, kind) == [], f"{method} {path}"
        TypeAdapter(list[kind] if isinstance(found, list) else kind).validate_python(found)
        asked.add((method, path.split("?", maxsplit=1)[0].replace(job, "{job}")))
        return found

    asked: set[tuple[str, str]] = set()
    job = door.client().submit(submission(nonce="in-shape", command=["a", "b"])).job
    asked.add(("POST", "/v1/jobs"))
    ask("POST", "/v1/jobs", records.Job, submission(nonce="in-shape", command=["a", "b"]))
    ask("GET", "/v1/whoami", records.Caller)
    assert ask("GET", "/v1/jobs", records.Job)
    assert ask("GET", "/v1/queue", control.Waiting)
    ask("GET", "/v1/leases", control.Lease)
    assert ask("GET", "/v1/engines", control.Engine)
    ask("POST", f"/v1/jobs/{job}/pause", control.Done, {"because": "a look"}, 202)
    ask("POST", f"/v1/jobs/{job}/resume", control.Done, {}, 202)
    ask("POST", f"/v1/jobs/{job}/keep", control.Done, {"hours": 4}, 202)
    assert ask("GET", f"/v1/consents?job={job}", control.Consent)
    assert ask("POST", "/v1/consents", control.Consented, {"job": job, "allow": ["pause"]})["rows"]
    ask("POST", f"/v1/jobs/{job}/cancel", control.Done, {}, 202)
    assert ask("GET", f"/v1/jobs/{job}", records.JobDetail)["actions"]
    assert ask("GET", "/v1/actions", records.Action)
    ask("GET", "/v1/plans", control.Plan)
    ask("GET", "/v1/plans/trial", control.PlanTrial)
    ask("GET", "/v1/acting", control.Switch)
    ask("POST", "/v1/acting/stop", control.Switch, {"because": "a look"})
    ask("POST", "/v1/acting/start", control.Switch, {})
    assert ask("GET", "/healthz", service.Health)["components"]
    assert ask("GET", "/v1/queries", service.Query)
    ask("GET", "/v1/imports", service.ImportState)
    ask("POST", "/v1/imports/runs", service.ImportedRanges, {"origin": "slurm:here"})
    nothing = {"origin": "slurm:here", "columns": sorted(NEEDED), "rows": []}
    assert list(ask("POST", "/v1/imports/runs", service.RunsCounted, nothing)) == list(Counts.__annotations__)
    assert len(asked) == 23


def test_read_passes_over_what_is_newer_and_what_is_older_is_not_known() -> None:
    job = read(
        records.Job,
        {"job": "fallow:7", "state": "running", "submission": {"user": "ada"}, "newer": {"than": "this"}},
    )
    assert (job.state, job.submission.user, job.started_ms, job.gpus) == ("running", "ada", None, ())
    assert job.sent["newer"] == {"than": "this"}
    with pytest.raises(ValueError, match=r"an answer \(Job\) without its field 'job'"):
        read(records.Job, {"state": "running"})


def test_what_is_written_is_read_again() -> None:
    command = records.Command(is_="Start", number=3, gpus=("GPU-a",), settings=(("A", "b"),))
    row = to_row(command)
    assert (row["is"], row["settings"]) == ("Start", [["A", "b"]])
    assert read(records.Command, row).gpus == ("GPU-a",)
    switch = control.Switch(acting=True, project_modes={"vision": {"schedule": "ask"}})
    assert to_row(read(control.Switch, to_row(switch))) == to_row(switch)
