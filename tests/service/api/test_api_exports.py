"""Exports and other long answers, read by those who take their time: nobody else waits for them."""

import asyncio
import json
import shutil
import socket
import threading
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from service.api import export
from service.api.allowance import Allowance, Kind, Rate
from service.api.export import Exports
from service.api.export_desk import AT_ONCE, MOST_UNSENT, ExportQueue, Packed
from service.api.gate import RequestLimits, gate
from service.api.identity import Identity, Keys
from service.api.pace import GRACE_S, LEAST_BYTES_PER_S, LIMIT_S, Delivery
from service.api.tokens import Tokens
from service.control.interface import Caller, Role
from service.errors import BadParameter, ServiceBusy
from service.store.open import DiskTooFull
from tests.service.api.conftest import CONFIG, as_uid
from tests.service.api.standing_loop import in_no_time
from tests.service.conftest import Running, is_well, start, until

PIECE = 64 * 1024
WAIT_S = 5.0
"""Nobody keeps others from asking for longer (docs/security.md)."""


def caller(number: int) -> Caller:
    return Caller(name=f"person{number}", uid=40_000 + number, role=Role.USER)


def queue(folder: Path) -> ExportQueue:
    def write(out: Path, kind: str, span_ms: tuple[int, int]) -> tuple[tuple[Path, int], ...]:
        out.mkdir()
        (out / f"samples.{kind}").write_bytes(b"x" * 100)
        return ((out / f"samples.{kind}", 1),)

    return ExportQueue(Exports(write=write, folder=folder))


async def read(packed: Packed, bytes_per_s: float, pieces: int) -> bool:
    """Send so many pieces to a reader of that speed; whether it got all. The export ends with it."""

    async def respond(send: object) -> None:
        for _ in range(pieces):
            await send({"body": b"x" * PIECE})  # type: ignore[operator]

    async def reader(_: object) -> None:
        await asyncio.sleep(PIECE / bytes_per_s)

    try:
        await packed.delivery.run(respond, reader)
    except TimeoutError:
        return False
    finally:
        packed.end()
    return True


def test_a_reader_below_the_least_speed_loses_the_answer_and_one_above_it_does_not() -> None:
    async def story(bytes_per_s: float, pieces: int) -> tuple[bool, float]:
        async def respond(send: object) -> None:
            for _ in range(pieces):
                await send({"body": b"x" * PIECE})  # type: ignore[operator]

        try:
            await Delivery().run(respond, lambda _: asyncio.sleep(PIECE / bytes_per_s))
        except TimeoutError:
            return False, asyncio.get_running_loop().time()
        return True, asyncio.get_running_loop().time()

    assert in_no_time(story(0.001, 1), 0) == (False, pytest.approx(GRACE_S))
    is_whole, took_s = in_no_time(story(LEAST_BYTES_PER_S / 2, 10_000), 0)
    assert not is_whole and took_s < 3 * GRACE_S
    assert in_no_time(story(2 * LEAST_BYTES_PER_S, 1_000), 0)[0]
    is_whole, took_s = in_no_time(story(2 * LEAST_BYTES_PER_S, 10_000), 0)
    assert not is_whole and took_s == pytest.approx(LIMIT_S), "and nobody has more than the limit"


def test_nobody_waits_until_another_has_read_theirs(tmp_path: Path) -> None:
    async def story() -> float:
        exports = queue(tmp_path)
        dawdling = [await exports.pack(caller(each), "csv", 0, 1) for each in range(AT_ONCE + 1)]
        reading = [asyncio.ensure_future(read(each, 2 * LEAST_BYTES_PER_S, 1000)) for each in dawdling]
        await asyncio.sleep(0)
        began_s = asyncio.get_running_loop().time()
        (await exports.pack(caller(100), "csv", 0, 1)).end()
        waited_s = asyncio.get_running_loop().time() - began_s
        assert all(await asyncio.gather(*reading)), "and nobody lost anything by that"
        return waited_s

    assert in_no_time(story()) < WAIT_S
    assert not list(tmp_path.iterdir())


def test_one_person_has_one_export_until_it_is_sent(tmp_path: Path) -> None:
    async def story() -> None:
        exports = queue(tmp_path)
        first = await exports.pack(caller(1), "csv", 0, 1)
        second = asyncio.ensure_future(exports.pack(caller(1), "csv", 0, 1))
        await asyncio.sleep(60)
        assert not second.done()
        first.end()
        (await second).end()

    in_no_time(story())


@pytest.mark.slow  # seconds of waiting for threads
def test_where_the_disk_holds_no_more_exports_the_slowest_reader_gives_way(tmp_path: Path) -> None:
    async def story() -> tuple[list[bool], float]:
        exports = queue(tmp_path)
        fast, slow = 4 << 20, 2 * LEAST_BYTES_PER_S
        reading = []
        for number in range(MOST_UNSENT):
            packed = await exports.pack(caller(number), "csv", 0, 1)
            speed = slow + number if number < 2 else fast
            reading.append(asyncio.ensure_future(read(packed, speed, 2_000 if speed == fast else 500)))
        began_s = asyncio.get_running_loop().time()
        (await exports.pack(caller(100), "csv", 0, 1)).end()
        waited_s = asyncio.get_running_loop().time() - began_s
        return await asyncio.gather(*reading), waited_s

    whole, waited_s = in_no_time(story())
    assert whole == [False, *[True] * (MOST_UNSENT - 1)]
    assert waited_s < WAIT_S


@pytest.mark.slow  # the same
@pytest.mark.parametrize("refusal", [ServiceBusy, DiskTooFull])
def test_where_a_slow_reader_takes_the_room_another_export_needs_it_is_given_up(
    tmp_path: Path, refusal: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")

    def unsent() -> int:
        return len(list(tmp_path.glob(".sending-*/export.tar")))

    def write(out: Path, kind: str, span_ms: tuple[int, int]) -> tuple[tuple[Path, int], ...]:
        if refusal is DiskTooFull and unsent():
            raise DiskTooFull("the export would leave the disk too little")
        out.mkdir()
        return ()

    def free(_: Path) -> object:
        is_full = refusal is ServiceBusy and unsent()
        return usage(1 << 40, 0, 0 if is_full else 1 << 40)

    monkeypatch.setattr(export.shutil, "disk_usage", free)

    async def story(bytes_per_s: float, pieces: int) -> bool:
        exports = ExportQueue(Exports(write=write, folder=tmp_path))
        packed = await exports.pack(caller(1), "csv", 0, 1)
        reading = asyncio.ensure_future(read(packed, bytes_per_s, pieces))
        try:
            (await exports.pack(caller(2), "csv", 0, 1)).end()
        finally:
            is_whole = await reading
        return is_whole

    assert in_no_time(story(2 * LEAST_BYTES_PER_S, 500)) is False
    with pytest.raises(ServiceBusy if refusal is ServiceBusy else BadParameter):
        in_no_time(story(8 << 20, 5_000))  # who reads as fast as one may loses nothing


@pytest.fixture
def service(tmp_path: Path, traversable: Path) -> Iterator[Running]:
    config = CONFIG.replace("gpus_per_node = 2", "gpus_per_node = 8").replace(
        "backfill_days = 0", "backfill_days = 2"
    )
    folder = traversable / "exports"
    folder.mkdir()
    config = config.format(socket=folder / "s.sock").replace("send_timeout_s = 2", "send_timeout_s = 60")
    made = start(tmp_path / "data", config=config)
    try:
        until("the service is well", lambda: is_well(made))
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder)


@pytest.mark.process
@pytest.mark.slow
def test_accounts_that_do_not_read_their_exports_keep_nobody_waiting(
    service: Running, traversable: Path
) -> None:
    end_ms = int(json.loads(service.get("/healthz")[2])["last_tick_ms"])
    span = {"from_ms": end_ms - 2 * 86_400_000, "to_ms": end_ms, "format": "csv"}
    head = f"GET /v1/export?{urlencode(span)} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    path = str(traversable / "exports" / "s.sock")

    def asked() -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(30)
        made.connect(path)
        made.sendall(head)
        return made

    def ask() -> str:
        with asked() as made:
            return made.recv(12).decode()

    held = threading.Barrier(AT_ONCE + 2)
    release = threading.Event()

    def dawdle(uid: int) -> None:
        ours, theirs = socket.socketpair()

        def hold() -> str:
            with asked() as unread:
                first = unread.recv(12).decode()
                theirs.sendall(b"h")
                theirs.recv(1)
            return first

        def watch() -> None:
            ours.recv(1)
            held.wait(60)
            release.wait(60)
            ours.sendall(b"r")

        watching = threading.Thread(target=watch)
        watching.start()
        assert as_uid(uid, hold) == "HTTP/1.1 200"
        watching.join()

    accounts = [threading.Thread(target=dawdle, args=(4001 + each,)) for each in range(AT_ONCE + 1)]
    for each in accounts:
        each.start()
    held.wait(60)
    try:
        unsent = len(list(service.data.glob(".sending-*/export.tar")))
        assert unsent == AT_ONCE + 1, "each has one on the disk and reads nothing of it"
        assert as_uid(4100, ask) == "HTTP/1.1 200"
    finally:
        release.set()
        for each in accounts:
            each.join()
    until("all is gone", lambda: not list(service.data.glob(".sending-*")))


def test_who_loses_an_answer_is_hung_up_on_and_has_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hung_up: list[bool] = []

    async def app(*_: object) -> None:
        raise TimeoutError

    async def never(*_: object) -> Any:
        raise AssertionError("nothing is asked or sent")

    rate = Rate(per_minute=60, at_once=60, what="requests", setting="limits.calls_per_minute")
    rules = RequestLimits(
        identity=Identity(
            Keys(token="", tokens=Tokens(Path("/nowhere")), operators=frozenset(), now_ms=lambda: 0)
        ),
        open_paths=frozenset({"/healthz"}),
        hosts=frozenset(),
        send_timeout_s=1,
        receive_timeout_s=1,
        allowance=Allowance({Kind.CALL: rate}),
    )
    state = {"hang_up": lambda: hung_up.append(True)}
    scope = {"type": "http", "method": "GET", "path": "/healthz", "headers": [], "state": state}
    with caplog.at_level("INFO"):
        in_no_time(gate(app, rules)(scope, never, never))  # type: ignore[arg-type]
    assert hung_up == [True]
    (line,) = [each for each in caplog.records if getattr(each, "event", "") == "answer-broken-off"]
    assert line.__dict__["fields"] == {"caller": "anybody", "path": "/healthz", "reason": "read too slowly"}
