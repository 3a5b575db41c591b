"""How large an answer or an export of a running service may be, and what is said of larger ones."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from service.client.http import JSON
from service.schemas.headers import ARROW
from tests.service.conftest import Running, is_well, start, until

pytestmark = pytest.mark.process

HOUR_MS = 3_600_000
CONFIG = """
[collect]
tick_s = 1
[simulated]
nodes = 2
gpus_per_node = 8
backfill_days = 1
[api]
answer_mib = 1
export_gib = 0.001
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    made = start(tmp_path_factory.mktemp("large") / "data", config=CONFIG)
    try:
        until("the service is well", lambda: is_well(made))
        yield made
    finally:
        made.stop()


def newest_ms(service: Running) -> int:
    """A whole hour before the newest measurement."""
    _, _, body = service.get("/healthz")
    return int(json.loads(body)["last_tick_ms"]) // HOUR_MS * HOUR_MS


def ask(service: Running, hours: int, kind: str) -> tuple[int, str]:
    end_ms = newest_ms(service)
    span = {"bins_from": end_ms - hours * HOUR_MS, "bins_to": end_ms, "as_of": end_ms}
    headers = {"Accept": kind, **service.bearer()}
    status, _, body = service.get(f"/v1/query/assess_bins?{urlencode(span)}", **headers)
    return status, body.decode(errors="replace")


def test_an_answer_that_is_too_large_is_refused_with_how_to_ask_for_less(service: Running) -> None:
    assert ask(service, 1, ARROW)[0] == 200
    status, text = ask(service, 20, ARROW)
    assert status == 422 and "more than 1 MiB (api.answer_mib" in text and "shorter window" in text


def test_of_json_a_quarter_is_too_large(service: Running) -> None:
    assert ask(service, 1, JSON)[0] == 200
    assert ask(service, 6, ARROW)[0] == 200
    status, text = ask(service, 6, JSON)
    assert status == 422 and "a quarter of it as JSON" in text


def test_an_export_that_is_too_large_leaves_nothing_on_the_disk(service: Running) -> None:
    end_ms = newest_ms(service)
    for hours, wanted in ((20, 422), (1, 200)):
        span = {"from_ms": end_ms - hours * HOUR_MS, "to_ms": end_ms, "format": "csv"}
        status, _, body = service.get(f"/v1/export?{urlencode(span)}", **service.bearer())
        assert status == wanted, body[:500]
        if status == 422:
            assert b"api.export_gib" in body and b"shorter span" in body
        until("it is gone", lambda: not leftovers(service.data))


def leftovers(data: Path) -> list[Path]:
    return list(data.glob(".sending-*"))
