"""Every route and every kind of caller: a table over the application's own routes; none can be forgotten."""

import re
from collections.abc import Iterator

import pytest

from advisor.journal.kill_switch import SIMULATED
from service.api.roles import RULES, RuledRoute, may
from service.control.interface import Role
from service.schemas.headers import ROLE_HEADER
from tests.service.api.conftest import Door, submission

BODIES: dict[str, object] = {
    "/v1/jobs": submission(name="by role"),
    "/v1/jobs/{job}/resize": {"gpus": 1},
    "/v1/jobs/{job}/keep": {"hours": 4},
    "/v1/jobs/{job}/reports": {
        "at_ms": 1,
        "launcher": {"node": "n", "pid": 2, "started_ms": 1},
        "state": "running",
    },
    "/v1/consents": {"withdraw": ["share"]},
    "/v1/plans/{plan}/reject": {"because": "a test"},
    "/v1/imports": {"url": "http://127.0.0.1:9", "from_ms": 0, "to_ms": 1},
}
OPEN = {"/healthz", "/docs", "/openapi.json"}
UNKNOWN_NAMES = {"job": "fallow:999999", "plan": "999999", "action": "999999", "name": "no_such_query"}
RULED = sorted(RULES, key=str)


def routes(door: Door) -> Iterator[tuple[str, str]]:
    _, document = door.ask("GET", "/openapi.json", who="")
    for path, methods in document["paths"].items():
        for method in methods:
            yield method.upper(), path


def plain(path: str) -> str:
    return path.replace(":path}", "}")


def concrete(path: str) -> str:
    return re.sub(r"{(\w+)}", lambda found: UNKNOWN_NAMES[found[1]], plain(path))


def answer(door: Door, rule: tuple[str, str], who: str) -> int:
    method, path = rule
    body = BODIES.get(plain(path), {}) if method == "POST" else None
    return door.ask(method, concrete(path), who=who, body=body)[0]


def test_every_route_has_a_rule_and_every_rule_a_route(door: Door) -> None:
    described = {(method, path) for method, path in RULES if path not in ("/docs", "/openapi.json")}
    assert set(routes(door)) == {(method, plain(path)) for method, path in described}


def test_route_without_a_rule_cannot_be_made() -> None:
    async def nothing() -> None:
        """Never called."""

    with pytest.raises(KeyError):
        RuledRoute("/v1/forgotten", nothing, methods=["POST"])


@pytest.mark.parametrize("who", ["", "wrong", "expired"])
def test_who_is_unknown_gets_nowhere(door: Door, who: str) -> None:
    expected = {rule: 200 if rule[1] in OPEN else 401 for rule in RULED}
    assert {rule: answer(door, rule, who) for rule in RULED} == expected


@pytest.mark.parametrize("role", [Role.NODE, Role.VIEWER, Role.USER])
def test_role_below_what_a_route_asks_for_is_refused(door: Door, role: Role) -> None:
    found = {rule: answer(door, rule, role.value) for rule in RULED}
    refused = {rule for rule in RULED if not may(role, RULES[rule]) and rule[1] not in OPEN}
    assert {rule: status for rule, status in found.items() if status == 403} == dict.fromkeys(refused, 403)
    assert [rule for rule, status in found.items() if status == 401] == []


def test_operator_is_refused_nothing_for_being_somebody(door: Door) -> None:
    rules = [rule for rule in RULED if rule[1] not in ("/v1/acting/stop", "/v1/nodes/ticks")]
    found = {rule: answer(door, rule, "operator") for rule in rules}
    assert {rule: status for rule, status in found.items() if status in (401, 403, 405, 500)} == {}


def test_a_node_gains_nothing_by_asking_to_be_taken_for_a_viewer(door: Door) -> None:
    header = {"Authorization": f"Bearer {door.secrets['node']}", ROLE_HEADER: "viewer"}
    assert door.running.get("/v1/jobs", **header)[0] == 403


def test_what_nodes_push_is_refused_with_what_to_do_where_nobody_takes_it_in(door: Door) -> None:
    status, said = door.ask("POST", "/v1/nodes/ticks", who="node", body={})
    assert (status, said["error"]) == (422, "bad-order")
    assert "--source nodes" in said["message"]
    assert door.ask("POST", "/v1/nodes/ticks", who="operator", body={})[0] == 403


def test_no_route_is_answered_with_an_error_of_the_services_own(door: Door) -> None:
    found = {rule: answer(door, rule, "user") for rule in RULED}
    assert {rule for rule, status in found.items() if status >= 500} == set()


def test_only_an_operator_turns_the_switch(door: Door) -> None:
    client = door.client("operator")
    try:
        assert client.stop_acting("a test").acting is False
        assert door.ask("POST", "/v1/acting/start", who="user", body={})[0] == 403
        said = door.client("viewer").acting()
        assert (said.acting, said.by, said.because) == (False, "the-operator", "a test")
    finally:
        started = client.start_acting()
    # on a simulated cluster nothing is ever done; what the operator said is gone
    assert (started.acting, started.because) == (False, SIMULATED)
