"""The right to pause in Kubernetes: no more than what is asked for, by RBAC and by the policies' own rules.

The rules are worked out by Google's CEL runtime, on the very objects that the engine changed, before and
after; an API server has not been seen to do so.
"""

import copy
import json
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from advisor.actions import Pause, Resume
from advisor.engines.kubernetes import KubernetesEngine, KubernetesEngineDependencies
from advisor.jobs.manager_acts import ManagerActStore
from collector.clock import SystemClock
from collector.managers.kubernetes.api import Account, connected
from collector.managers.kubernetes.reader import KubernetesManager
from collector.managers.model import Look
from collector.model import JobId
from tests.collector.managers.kubernetes import api_server
from tests.collector.managers.kubernetes.api_server import JOB, WORKLOAD, ApiServer
from tests.packaging.test_kubernetes_files import FILE, manifests, validate
from tests.stores import open_store

ACTING = FILE.parent / "acting.yaml"
ID = JobId("pod:vision/train-x7k2p")
FALLOW = "system:serviceaccount:fallow:fallow"
Object = dict[str, Any]


def made() -> list[Object]:
    return list(yaml.safe_load_all(ACTING.read_text()))


@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_each_manifest_is_one_by_kubernetes_own_schema(version: str) -> None:
    assert [each["kind"] for each in made()] == [
        "ClusterRole",
        "ClusterRoleBinding",
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding") * 2,
    ]
    for each in made():
        validate(each, version)


def test_the_job_that_tests_act_on_is_one_by_the_schema() -> None:
    validate(api_server.job(), "1.37")
    validate(api_server.pod(), "1.37")


def lived(folder: Path, server: ApiServer) -> list[tuple[Object, Object]]:
    """A look, a pause and a resume; each changed object before and after."""
    (folder / "token").write_text("word")
    changes: list[tuple[Object, Object]] = []
    done = server.patch

    def patch(path: str, body: Object) -> tuple[int, Object]:
        before = copy.deepcopy(server.objects[path])
        status, after = done(path, body)
        changes.append((before, after))
        return status, after

    server.patch = patch  # type: ignore[method-assign]
    with open_store(folder / "fallow.duckdb") as store, api_server.serving(server) as url:
        account = Account(url=url, token_file=folder / "token", ca_file=None)
        look = KubernetesManager(lambda: account, jobs=True).look(SystemClock().now_ms())
        assert isinstance(look, Look), look
        engine = KubernetesEngine(
            KubernetesEngineDependencies(
                book=ManagerActStore(store, SystemClock()),
                connect=lambda: contextmanager(partial(connected, timeout_s=5.0))(account),
                clock=SystemClock(),
                looks=lambda: (look,),
                against=lambda word, annotate: None if word is not None and word.pause else "no",
                gpus_of=lambda job: (),
            )
        )
        assert type(engine.do(Pause(job=ID), 1)).__name__ == "Done"
        assert type(engine.do(Resume(job=ID, gpus=()), 2)).__name__ == "Done"
    return changes


def servers() -> list[ApiServer]:
    return [ApiServer(), ApiServer().with_kueue()]


def test_all_that_is_asked_for_is_granted_and_all_that_is_granted_is_asked_for(tmp_path: Path) -> None:
    asked = set()
    for number, server in enumerate(servers()):
        (tmp_path / str(number)).mkdir()
        lived(tmp_path / str(number), server)
        asked |= {_right(verb, path) for verb, path in server.asked} - {None}
    granted = {
        (verb, group, kind)
        for role in (*manifests(), *made())
        if role["kind"] == "ClusterRole"
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for kind in rule["resources"]
        for verb in rule["verbs"]
    }
    assert asked <= granted, asked - granted
    pausing = {each for each in granted if each[0] != "list"} | {("list", "batch", "jobs")}
    assert pausing <= asked, "granted and never asked for"


def _right(verb: str, path: str) -> tuple[str, str, str] | None:
    """What RBAC calls a request; ``None`` for what any account may ask."""
    parts = path.partition("?")[0].strip("/").split("/")
    if parts == ["apis"]:
        return None
    group, rest = (parts[1], parts[3:]) if parts[0] == "apis" else ("", parts[2:])
    rest = rest[2:] if rest[0] == "namespaces" and len(rest) > 2 else rest
    return ("list" if verb == "GET" and len(rest) == 1 else verb.lower(), group, rest[0])


def denied(policy: Object, old: Object, new: Object, **request: Any) -> list[str]:
    """The messages of the rules that a change of an object breaks."""
    cel = pytest.importorskip("cel_expr_python.cel", reason="pip install cel-expr-python")
    env = cel.NewEnv(variables=dict.fromkeys(("object", "oldObject", "request"), cel.Type.DYN))
    asks = {"operation": "UPDATE", "userInfo": {"username": FALLOW}, **request}
    values = {"object": new, "oldObject": old, "request": asks}

    def holds(expression: str) -> bool:
        result = env.compile(expression).eval(data=values).value()
        assert isinstance(result, bool), (expression, result)
        return result

    spec = policy["spec"]
    if not all(holds(each["expression"]) for each in spec["matchConditions"]):
        return []
    return [each["message"] for each in spec["validations"] if not holds(each["expression"])]


def policies() -> tuple[Object, Object]:
    jobs, workloads = (each for each in made() if each["kind"] == "ValidatingAdmissionPolicy")
    return jobs, workloads


def test_what_the_engine_changes_passes_and_the_same_of_a_job_that_did_not_agree_does_not(
    tmp_path: Path,
) -> None:
    jobs, workloads = policies()
    for number, (server, policy) in enumerate(zip(servers(), policies(), strict=True)):
        (tmp_path / str(number)).mkdir()
        changes = lived(tmp_path / str(number), server)
        assert len(changes) == 2
        for old, new in changes:
            assert denied(policy, old, new) == []
    (old, new), _ = lived_jobs = lived(tmp_path, ApiServer())
    assert len(lived_jobs) == 2
    for each in (old, new):
        each["metadata"]["annotations"].pop("fallow/allow")
    assert denied(jobs, old, new) == ["its owner has not written the annotation fallow/allow: pause"]
    assert denied(jobs, old, new, userInfo={"username": "system:serviceaccount:kube-system:job"}) == []
    strangers = api_server.job(suspend=True)
    let_go = copy.deepcopy(strangers)
    let_go["spec"]["suspend"] = False
    let_go["metadata"]["annotations"]["fallow/intent"] = "x"
    assert denied(jobs, strangers, let_go) == ["Fallow lets go on what it suspended, and nothing else"]
    assert denied(workloads, old, new, operation="DELETE"), "nothing is deleted"
    assert denied(jobs, old, new, subResource="status"), "nor a status written"


def _spec(name: str, value: Any) -> Callable[[Object], None]:
    return lambda of: of["spec"].update({name: value})


@pytest.mark.parametrize(
    "change",
    [
        _spec("parallelism", 0),
        _spec("activeDeadlineSeconds", 1),
        _spec("ttlSecondsAfterFinished", 0),
        lambda of: of["spec"]["template"]["spec"]["containers"][0].update(image="evil"),
        lambda of: of["spec"].pop("completions"),
        lambda of: of["metadata"].update(labels={"a": "b"}),
        lambda of: of["metadata"].update(finalizers=["a/b"]),
        lambda of: of["metadata"].update(ownerReferences=[{"kind": "Pod", "name": "p", "uid": "u"}]),
        lambda of: of["metadata"]["annotations"].update({"fallow/allow": "pause,more"}),
        lambda of: of["metadata"]["annotations"].update({"other": "x"}),
        lambda of: of["metadata"]["annotations"].pop("team"),
    ],
)
def test_anything_else_of_a_job_is_refused_though_it_agreed(change: Callable[[Object], None]) -> None:
    old = api_server.job()
    new = copy.deepcopy(old)
    new["spec"]["suspend"] = True
    new["metadata"]["annotations"]["fallow/intent"] = "x"
    assert denied(policies()[0], old, new) == []
    change(new)
    assert len(denied(policies()[0], old, new)) == 1


def test_no_field_of_a_job_is_left_out_of_the_rules() -> None:
    checker = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    schemas = Path(checker.__file__).parent / "kubernetes-json-schema" / "v1.37.0-local-strict"
    fields = set(json.loads((schemas / "jobspec-batch-v1.json").read_text())["properties"])
    jobs, _ = policies()
    rules = " ".join(each["expression"] for each in jobs["spec"]["validations"])
    assert {each for each in fields if f"object.spec.{each} == oldObject.spec.{each}" not in rules} == {
        "suspend"
    }


def test_paths_of_the_stand_in_are_those_of_the_kinds() -> None:
    assert (_right("PATCH", JOB), _right("PATCH", WORKLOAD)) == (
        ("patch", "batch", "jobs"),
        ("patch", "kueue.x-k8s.io", "workloads"),
    )
