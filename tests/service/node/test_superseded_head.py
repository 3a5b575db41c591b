"""A head that another one has superseded: it sends nothing, takes no orders, and says so at once."""

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.testclient import TestClient

from service.api.roles import RULES, RuledRoute
from service.config.remote_write import RemoteWriteConfig
from service.control.errors import WrongState
from service.control.interface import Caller, Role
from service.health.components import DELIVERY, ComponentState, HealthBoard
from service.health.condition import MaintenanceTask
from service.remote_write.sender import NotTaken, RemoteWriter
from service.server.head import NAME, SENDING, SURE_WITHIN_S, held_back
from tests.collector.replay.hand_clock import HandClock

BECAUSE = "node gpu-a has heard the head on head-b, which took over at 2026-11-27 01:00:00 UTC"
STOPS_REPORTS_TICKS = {
    ("POST", "/v1/nodes/ticks"),
    ("POST", "/v1/jobs/{job:path}/reports"),
    ("POST", "/v1/acting/stop"),
}
"""By hand: what harms nobody where two heads run. All else that isn't read changes something."""


def answered(superseded: str | None) -> dict[tuple[str, str], int]:
    """How each route answers who may use it."""
    app = FastAPI()
    app.state.superseded = lambda: superseded

    @app.exception_handler(WrongState)
    async def refused(_: Request, error: WrongState) -> JSONResponse:
        assert "head-b" in str(error) and "give the order there" in str(error)
        return JSONResponse(str(error), 409)

    async def done() -> str:
        return "done"

    for method, path in RULES:
        app.router.routes.append(RuledRoute(path, done, methods=[method]))
    found = {}
    for (method, path), role in RULES.items():
        state = {"caller": Caller(name="ann", uid=1, role=Role.NODE if role is Role.NODE else Role.OPERATOR)}

        async def as_caller(scope: dict, receive: object, send: object, state: dict = state) -> None:  # type: ignore[type-arg]
            await app({**scope, "state": {**state}}, receive, send)  # type: ignore[arg-type]

        found[method, path] = TestClient(as_caller).request(method, path).status_code  # type: ignore[arg-type]
    return found


def test_a_superseded_head_refuses_every_order_and_answers_every_question() -> None:
    taken = {rule: 200 if rule[0] == "GET" or rule in STOPS_REPORTS_TICKS else 409 for rule in RULES}
    assert answered(BECAUSE) == taken


def test_a_head_takes_every_order() -> None:
    assert set(answered(None).values()) == {200}


def test_what_sends_messages_rests_and_goes_on_after_a_take_over() -> None:
    told: list[str | None] = [BECAUSE]
    done: list[str] = []
    health = HealthBoard(HandClock())
    health.expect(DELIVERY, bound_s=60)
    tasks = tuple(
        MaintenanceTask(name=name, every_s=1, first_after_s=0, work=lambda name=name: done.append(name))
        for name in (*SENDING, "findings")
    )
    held = held_back(tasks, lambda: told[0], health)
    for task in held:
        task.work()
    assert done == ["findings"]
    assert [each.state for each in health.components()] == [ComponentState.OK], "nothing is overdue"
    told[0] = None
    for task in held:
        task.work()
    assert done == ["findings", *SENDING, "findings"]


def test_nothing_is_pushed_to_a_remote_store() -> None:
    told: list[str | None] = [BECAUSE]
    writer = RemoteWriter(
        RemoteWriteConfig(url="http://127.0.0.1:9"),
        lambda: pytest.fail("a page was made"),
        lambda: 1_000,
        lambda trouble: None,
        lambda: told[0],
    )
    with pytest.raises(NotTaken, match="head-b"):
        writer.turn()


def test_being_superseded_is_told_at_once_and_being_unsure_only_after_a_while() -> None:
    health = HealthBoard(HandClock())
    health.expect(NAME, bound_s=SURE_WITHIN_S, first_s=SURE_WITHIN_S, patient=True)
    health.went(NAME, "nobody has pushed yet")
    assert not health.components()[0].state.is_bad
    health.expect(NAME, bound_s=SURE_WITHIN_S)
    health.went(NAME, BECAUSE)
    (component,) = health.components()
    assert component.state is ComponentState.FAILING and component.reason == BECAUSE
