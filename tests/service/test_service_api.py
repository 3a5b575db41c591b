"""The HTTP door of a real service: who gets in, what they get, and what they cannot do."""

import json
import socket
import stat
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from service import data_folder as client_place
from tests.service.conftest import Running, until

ARROW = "application/vnd.apache.arrow.stream"


def test_health_is_open_and_names_the_service(service: Running) -> None:
    status, _, body = service.get("/healthz")
    said = json.loads(body)
    assert (status, said["service"], said["status"]) == (200, "fallow", "ok")
    assert said["pid"] == service.process.pid


@pytest.mark.parametrize("path", ["/v1/query/span", "/v1/queries", "/metrics", "/v1/export", "/nowhere"])
def test_without_the_token_nothing_is_told(service: Running, path: str) -> None:
    status, headers, body = service.get(path)
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    assert json.loads(body)["error"] == "not-allowed"


@pytest.mark.parametrize("given", ["Bearer wrong", "Basic Zm9v", "Bearer", "bearer \xe9"])
def test_wrong_token_is_refused(service: Running, given: str) -> None:
    assert service.get("/v1/query/span", Authorization=given)[0] == 401


def test_name_that_a_foreign_page_made_resolve_here_is_refused(service: Running) -> None:
    status, _, body = service.get("/healthz", Host="evil.example:9475")
    assert status == 421
    assert "evil.example" in json.loads(body)["message"]


def test_token_is_for_its_owner_alone(service: Running) -> None:
    mode = client_place.token_file(service.data).stat().st_mode
    assert stat.S_IMODE(mode) == 0o600
    assert len(service.token) >= 32


def test_arrow_is_the_default_and_json_says_the_same(service: Running) -> None:
    status, headers, body = service.get("/v1/query/gpus_now", **service.bearer())
    table = pa.ipc.open_stream(body).read_all()
    _, json_headers, json_body = service.get(
        "/v1/query/gpus_now", **service.bearer(), Accept="application/json"
    )
    rows = json.loads(json_body)
    assert (status, headers["content-type"], json_headers["content-type"]) == (200, ARROW, "application/json")
    assert [row["uuid"] for row in rows] == table["uuid"].to_pylist()
    assert list(rows[0]) == table.column_names
    assert rows[0]["as_of"].endswith("Z")


def test_unknown_query_names_the_nearest(service: Running) -> None:
    status, _, body = service.get("/v1/query/gpu_now", **service.bearer())
    assert status == 404
    assert "gpus_now" in json.loads(body)["message"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/query/usage_over_time",
        "/v1/query/span?x=1",
        "/v1/query/usage_over_time?from_ts=yesterday&to_ts=today&step_s=60",
        "/v1/query/usage_over_time?from_ts=2026-01-01T00:00:00Z&to_ts=2025-01-01T00:00:00Z&step_s=60",
    ],
)
def test_bad_parameter_is_refused_with_what_would_do(service: Running, path: str) -> None:
    status, _, body = service.get(path, **service.bearer())
    assert status == 422
    assert json.loads(body)["error"] == "bad-parameter"


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("..%2f..%2fpyproject", 404),
        ("span;DROP TABLE samples", 404),
        ("%2e%2e%2fschema%2f001_telemetry", 404),
        ("SELECT 1", 404),
        ("span%00", 400),
    ],
)
def test_only_named_queries_run(service: Running, name: str, status: int) -> None:
    assert service.get(f"/v1/query/{name.replace(' ', '%20')}", **service.bearer())[0] == status


def test_sql_in_a_parameter_is_a_value(service: Running) -> None:
    client = service.client()
    assert client.rows("gpus_now", user="x' OR 1=1; DROP TABLE samples; --") == []
    assert len(client.rows("gpus_now")) == 4


def test_catalogue_lists_every_query_with_its_parameters(service: Running) -> None:
    _, _, body = service.get("/v1/queries", **service.bearer())
    by_name = {each["name"]: each for each in json.loads(body)}
    assert {"span", "gpus_now", "ledger_by_state", "findings"} <= set(by_name)
    assert [each["name"] for each in by_name["gpu_holders"]["parameters"] if each["required"]] == [
        "uuid",
        "from_ts",
        "to_ts",
    ]


def test_metrics_show_every_gpu(service: Running) -> None:
    status, headers, body = service.get("/metrics", **service.bearer())
    assert (status, headers["content-type"].split(";")[0]) == (200, "text/plain")
    assert body.count(b"\nfallow_gpu_memory_used_bytes{") == 4


def test_reader_of_one_byte_a_second_delays_no_tick_and_is_given_up_on(service: Running) -> None:
    end = datetime.now(UTC).replace(second=0, microsecond=0)
    span = f"from_ts={(end - timedelta(hours=24)).isoformat()}&to_ts={end.isoformat()}".replace("+00:00", "Z")
    request = (
        f"GET /v1/query/heatmap?{span}&step_s=60 HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n"
        f"Authorization: Bearer {service.token}\r\n\r\n"
    )
    host, port = service.url.removeprefix("http://").split(":")
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        slow.connect((host, int(port)))
        slow.settimeout(1)
        slow.sendall(request.encode())
        first = last_tick(service)
        got = b""
        for tick in range(1, 5):
            got += slow.recv(1)
            until("the next tick", lambda since=first + tick * 1000: last_tick(service) >= since, limit_s=5)
        assert got == b"HTTP"
        rest = drained(slow)
    assert len(rest) < 900_000, "the answer was cut off after api.send_timeout_s"
    late = [gap for gap in gaps(service) if gap["source"] == "loop" and lasted_s(gap) > 3]
    assert late == [], "no tick waited for the reader, whatever else this machine was busy with"


def test_reader_that_hangs_up_leaves_the_service_well(service: Running) -> None:
    host, port = service.url.removeprefix("http://").split(":")
    for _ in range(20):
        with socket.socket() as rude:
            rude.connect((host, int(port)))
            half = f"GET /v1/query/gpus_now HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.token}"
            rude.sendall(half.encode())
    assert len(service.client().rows("gpus_now")) == 4


def last_tick(service: Running) -> int:
    return int(json.loads(service.get("/healthz")[2])["last_tick_ms"])


def lasted_s(gap: dict[str, str]) -> float:
    began, ended = (datetime.fromisoformat(gap[name]) for name in ("from_ts", "to_ts"))
    return (ended - began).total_seconds()


def gaps(service: Running) -> list[dict[str, str]]:
    end = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
    return service.client().rows("gaps", from_ts=end - timedelta(minutes=30), to_ts=end)


def drained(connection: socket.socket) -> bytes:
    """All that still comes, until the other side closes or falls silent."""
    received = b""
    try:
        while piece := connection.recv(65_536):
            received += piece
    except (TimeoutError, ConnectionResetError):
        pass
    return received


@pytest.mark.parametrize(("from_ms", "to_ms"), [(0, 2**63), (-(2**63), 0), (2**53, 2**53 + 1)])
def test_an_export_of_no_time_that_is_kept_is_refused(service: Running, from_ms: int, to_ms: int) -> None:
    path = f"/v1/export?from_ms={from_ms}&to_ms={to_ms}"
    status, _, body = service.get(path, **service.bearer())
    assert status == 422
    assert "_ms" in json.loads(body)["message"]


def test_an_export_from_the_first_to_the_last_time_is_whole(service: Running) -> None:
    status, _, body = service.get(f"/v1/export?from_ms={-(2**53)}&to_ms={2**53}", **service.bearer())
    assert status == 200
    assert len(body) > 1000
