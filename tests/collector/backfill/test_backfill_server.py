"""What answers when it is no Prometheus, a locked one, a tired one, or one that gives only so much."""

import json
import socket
from collections.abc import Mapping

import pytest

from collector.sources.prometheus.import_history import import_history
from collector.sources.prometheus.server import (
    Access,
    ImportFailed,
    NotPrometheus,
    Patience,
    PrometheusServer,
    Refused,
    ServerTrouble,
    TooMuch,
)
from tests.collector.backfill.past import MemoryStore
from tests.collector.dcgm.loopback import Answer, serving, text

QUICK = Patience(timeout_s=2, tries=3, pause_s=0.01)
WINDOW = (1_763_000_000_000, 1_763_003_600_000)


def access(url: str, **headers: str) -> Access:
    return Access(url=url, headers=headers, patience=QUICK)


def answer(data: object, status: int = 200) -> Answer:
    return Answer(body=json.dumps(data, separators=(",", ":")).encode(), status=status)


def matrix(*series: tuple[dict[str, str], list[tuple[float, str]]]) -> object:
    result = [{"metric": labels, "values": values} for labels, values in series]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


def import_from(url: str) -> object:
    return import_history(access(url), WINDOW, store=MemoryStore())


@pytest.mark.parametrize(
    ("said", "failure", "sentence"),
    [
        (text("<html>Grafana</html>"), NotPrometheus, "not a Prometheus"),
        (Answer(status=404, body=b"404 page not found"), NotPrometheus, "no Prometheus does"),
        (answer({"ok": True}), NotPrometheus, "not a Prometheus"),
        (Answer(status=401), Refused, "give a token or password"),
        (Answer(status=403), Refused, "give a token or password"),
        (Answer(status=503, body=b"starting"), ServerTrouble, "after 3 tries: HTTP 503"),
        (Answer(hangs=True), ServerTrouble, "after 3 tries"),
        (answer({"status": "error", "error": "parse error"}, 400), ServerTrouble, "HTTP 400 parse error"),
    ],
)
def test_server_that_cannot_be_read_is_told_with_what_to_do(
    said: Answer, failure: type[ImportFailed], sentence: str
) -> None:
    patience = Patience(timeout_s=0.2, tries=3, pause_s=0.01)
    with serving(lambda *_: said) as url, pytest.raises(failure, match=sentence) as caught:
        import_history(Access(url=url, patience=patience), WINDOW, store=MemoryStore())
    assert (type(caught.value) is failure and url in str(caught.value)) or failure is NotPrometheus


def test_nobody_there_is_told_with_what_to_give() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(NotPrometheus, match=r"cannot connect .* http://prometheus:9090"):
        import_from(f"http://127.0.0.1:{port}")


def test_headers_and_credentials_are_sent_and_never_told() -> None:
    seen: list[str] = []

    def reply(path: str, headers: Mapping[str, str]) -> Answer:
        seen.append(headers.get("Authorization", ""))
        return Answer(status=401)

    with serving(reply) as url:
        for given in (
            access(url, Authorization="Bearer secret"),
            access(url.replace("http://", "http://me:secret@")),
        ):
            with pytest.raises(Refused) as caught:
                import_history(given, WINDOW, store=MemoryStore())
            assert "secret" not in str(caught.value)
    assert seen[0] == "Bearer secret" and seen[1].startswith("Basic ")


def test_a_passing_failure_is_tried_again() -> None:
    answers = iter([Answer(status=502), Answer(status=503), answer({"status": "success", "data": ["up"]})])
    with serving(lambda *_: next(answers)) as url, PrometheusServer(access(url)) as server:
        assert server.names('{__name__!=""}', *WINDOW) == ("up",)


def test_values_are_read_alike_however_the_json_is_spaced() -> None:
    odd = {"__name__": "m", "pod": 'a"values":[[1,"2"]]\\', "x": "}]"}
    data = matrix(
        (odd, [(1763000001.123, "1.5"), (1763000031, "NaN"), (1763000061.5, "+Inf")]),
        ({}, [(1763000002, "7")]),
    )
    tight, spaced = json.dumps(data, separators=(",", ":")), json.dumps(data, indent=1)
    told = []
    for body in (tight, spaced):
        with serving(lambda *_, body=body: text(body)) as url, PrometheusServer(access(url)) as server:  # type: ignore[misc]
            told.append(server.samples("{}", *WINDOW))
    for first, other in [told]:
        for one, two in zip(first, other, strict=True):
            assert (one.name, one.labels) == (two.name, two.labels)
            assert one.at_ms.tolist() == two.at_ms.tolist()
            assert str(one.values.tolist()) == str(two.values.tolist())
    assert told[0][0].labels == {k: v for k, v in odd.items() if k != "__name__"}
    assert told[0][0].at_ms.tolist() == [1763000001123, 1763000031000, 1763000061500]


def test_sample_on_the_left_edge_belongs_to_the_piece_before() -> None:
    edge = WINDOW[0] / 1000
    data = matrix(({"__name__": "m"}, [(edge, "1"), (edge + 30, "2")]), ({"__name__": "n"}, [(edge, "1")]))
    with serving(lambda *_: answer(data)) as url, PrometheusServer(access(url)) as server:
        (series,) = server.samples("{}", *WINDOW)
    assert series.values.tolist() == [2.0]


def test_query_refused_even_in_the_smallest_piece_ends_with_the_servers_words() -> None:
    refusal = {"status": "error", "errorType": "execution", "error": "query would load too many samples"}
    with (
        serving(lambda *_: answer(refusal, 422)) as url,
        PrometheusServer(access(url)) as server,
        pytest.raises(TooMuch, match="too many samples"),
    ):
        server.samples("{}", *WINDOW)


@pytest.mark.parametrize(
    "data",
    [
        None,
        {"resultType": "scalar", "result": [1763000001, "50"]},
        {"resultType": "vector", "result": [{"metric": {}, "value": [1763000001, "50"]}]},
        {"resultType": "matrix", "result": [{"metric": None, "values": []}]},
        {"resultType": "matrix", "result": [{"metric": {}, "values": [[1763000001, "many"]]}]},
    ],
    ids=["nothing", "scalar", "vector", "no labels", "no number"],
)
def test_answer_of_another_shape_is_not_taken_for_samples(data: object) -> None:
    body = json.dumps({"status": "success", "data": data}, indent=1)
    with (
        serving(lambda *_: text(body)) as url,
        PrometheusServer(access(url)) as server,
        pytest.raises(NotPrometheus, match="not a Prometheus"),
    ):
        server.samples("{}", *WINDOW)


@pytest.mark.parametrize(
    "sign", [{"warnings": ["store 2: timeout"]}, {"isPartial": True}], ids=["warns", "says so"]
)
def test_what_came_in_part_is_kept_told_and_read_again(sign: dict[str, object]) -> None:
    labels = {"__name__": "DCGM_FI_DEV_GPU_TEMP", "UUID": "GPU-a", "Hostname": "n"}
    times = [WINDOW[0] // 1000 + 30 * n for n in range(1, 100)]
    told = [(float(at), "40") for at in times]
    ill = True

    def said(path: str, _: Mapping[str, str]) -> Answer:
        if "/label/" in path:
            return answer({"status": "success", "data": [labels["__name__"]] if "__name__" in path else []})
        if "/series" in path:
            return answer({"status": "success", "data": []})
        if "query_range" in path:
            return answer(matrix(({}, [(float(times[-1]), "1")])))
        part = matrix((labels, told[: 50 if ill else None]))
        assert isinstance(part, dict)
        return answer(part | sign if ill else part)

    store = MemoryStore()
    with serving(said) as url:
        first = import_history(access(url), WINDOW, store=store)
        ill = False
        second = import_history(access(url), WINDOW, store=store)
        third = import_history(access(url), WINDOW, store=store)
    assert (first.rows_added, second.rows_added, third.rows_added) == (50, 49, 0)
    assert first.partial_ms == WINDOW[1] - WINDOW[0] and first.remark == (sign.get("warnings") or [""])[0]
    assert (second.partial_ms, second.skipped_ms) == (0, 0)
    assert third.skipped_ms > 0
