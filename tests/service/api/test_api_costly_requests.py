"""What one request makes everybody wait for: each part is looked at once, each kind of mistake told once."""

import json
import time
from typing import Any

import pytest
from pydantic import ValidationError
from starlette.requests import Request

from service.api.allowance import Allowance, Kind, Rate
from service.api.app import _params
from service.api.gate import MOST_BODY_BYTES, _excess
from service.api.orders import MOST_GPUS, MOST_UNKNOWN, ReasonOrder, SubmissionOrder
from service.api.report_orders import ReportOrder
from service.control.errors import OverLimit
from service.control.interface import Caller, Role

EVE = Caller(name="eve", uid=4003, role=Role.USER)


def asked(line: str) -> Request:
    return Request({"type": "http", "query_string": line.encode(), "headers": []})


def cost_s(names: int) -> float:
    request = asked("&".join(f"{number}=" for number in range(names)))
    started_s = time.process_time()
    assert len(_params(request)) == names
    return time.process_time() - started_s


def test_parameters_that_are_repeated_are_lists_and_others_texts() -> None:
    assert _params(asked("a=1&b=2&a=3")) == {"a": ["1", "3"], "b": "2"}


def test_each_parameter_of_a_line_is_looked_at_once() -> None:
    """Twelve thousand fit a line; looked for one by one in all of them they took nine seconds."""
    few_s = min(cost_s(1_500) for _ in range(5))
    many_s = min(cost_s(12_000) for _ in range(3))
    assert many_s < 30 * few_s, "eight times as many, not sixty-four times the work"


@pytest.mark.parametrize("order", [ReportOrder, SubmissionOrder, ReasonOrder])
def test_a_body_of_unknown_fields_is_one_mistake(order: type[Any]) -> None:
    body = {f"field_{number}": 1 for number in range(5_000)}
    with pytest.raises(ValidationError) as refused:
        order.model_validate(body)
    assert [each["msg"] for each in refused.value.errors()] == ["5000 fields, of which most are unknown"]


def test_an_unknown_field_or_two_are_named() -> None:
    with pytest.raises(ValidationError) as refused:
        ReasonOrder.model_validate({"why": 1, "who": 2})
    assert [each["loc"] for each in refused.value.errors()] == [("why",), ("who",)]
    assert MOST_UNKNOWN > 2


def test_sizes_that_no_cluster_has_are_one_mistake() -> None:
    with pytest.raises(ValidationError) as refused:
        ReportOrder.model_validate(
            {
                "at_ms": 1,
                "launcher": {"node": "n", "pid": 1, "started_ms": 1},
                "state": "running",
                "step_s": {str(number): 1 for number in range(MOST_GPUS + 1)},
            }
        )
    assert [each["loc"] for each in refused.value.errors()] == [("step_s",)]


@pytest.mark.parametrize("length", [str(MOST_BODY_BYTES), "9" * 19, None], ids=["longest", "lies", "untold"])
def test_a_report_of_a_mebibyte_counts_as_sixty_requests(length: str | None) -> None:
    """Whoever sends fifty of them a second would have every request of everybody wait for their reading."""
    rate = Rate(per_minute=60, at_once=60, what="requests", setting="limits.calls_per_minute")
    allowance = Allowance({Kind.CALL: rate}, now_s=lambda: 0.0)
    headers = (
        [(b"transfer-encoding", b"chunked")] if length is None else [(b"content-length", length.encode())]
    )
    report: dict[str, Any] = {"method": "POST", "path": "/v1/jobs/fallow:1/reports", "headers": headers}
    assert _excess(EVE, report, allowance) is None
    usual = {**report, "headers": [(b"content-length", b"300")]}
    refused = _excess(EVE, usual, allowance)
    assert refused is not None
    assert refused.status == 429


def test_sixty_usual_requests_are_hardly_more_than_sixty() -> None:
    rate = Rate(per_minute=60, at_once=60, what="requests", setting="limits.calls_per_minute")
    allowance = Allowance({Kind.CALL: rate}, now_s=lambda: 0.0)
    body = json.dumps({"at_ms": 1, "state": "running", "step": 12}).encode()
    headers = [(b"content-length", str(len(body)).encode())]
    report: dict[str, Any] = {"method": "POST", "path": "/v1/jobs/fallow:1/reports", "headers": headers}
    assert all(_excess(EVE, report, allowance) is None for _ in range(59))
    with pytest.raises(OverLimit):
        allowance.take("uid 4003", Kind.CALL, 2)
