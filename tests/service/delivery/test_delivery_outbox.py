"""Nothing that was posted is lost or sent twice: servers fail, stall and recover, processes are killed."""

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from hypothesis import given
from hypothesis import strategies as st

from service.config.telling import DeliveryConfig
from service.notify.message import (
    FIRST_WAIT_MS,
    GIVE_UP_MS,
    LONGEST_WAIT_MS,
    Event,
    Message,
    NoAddress,
    What,
    address_of,
    harmless,
    receiver_of,
    receivers,
    standing,
    wait_ms,
)
from service.notify.outbox import Outbox, is_being_sent, note, read, read_log
from service.notify.sender import send
from tests.service.delivery.servers import Webhook, webhook

NOW_MS = time.time_ns() // 1_000_000 - 1_000
WAIT_S = 60


def message(key: str = "report:week:1", **more: object) -> Message:
    given = {"to": "ops#0", "title": "The week", "text": "All is well.", "made_ms": NOW_MS}
    return Message(key=key, **{**given, **more})  # type: ignore[arg-type]


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {WAIT_S} s: {what}"
        time.sleep(0.02)


def settled(outbox: Outbox, tries: int = 1) -> bool:
    """Whether every message has so many tries behind it, and none is under way."""
    return all(
        each.standing.tries >= tries
        and each.standing.state is not What.BEGUN
        and not is_being_sent(outbox.folder / each.message.id)
        for each in outbox.posted()
    )


@pytest.fixture
def hook() -> Webhook:  # type: ignore[misc]
    with webhook() as told:
        yield told


@pytest.fixture
def outbox(tmp_path: Path, hook: Webhook) -> Outbox:
    return Outbox(tmp_path, lambda receiver: hook.address)


def test_a_message_arrives_once_however_often_it_is_posted_and_pushed(outbox: Outbox, hook: Webhook) -> None:
    assert outbox.post(message()) is True
    assert outbox.post(message()) is False
    for _ in range(5):
        outbox.push(NOW_MS)
    until(lambda: settled(outbox), "sent")
    for _ in range(5):
        outbox.push(NOW_MS + 10 * FIRST_WAIT_MS)
    until(lambda: settled(outbox), "still sent")
    assert [each["message"] for each in hook.taken] == ["All is well."]
    assert hook.taken[0]["title"] == "The week"


def test_what_is_for_this_machine_passes_no_proxy_of_the_environment(
    outbox: Outbox, hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    with webhook() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", "intern.example")
        outbox.post(message())
        outbox.push(NOW_MS)
        until(lambda: settled(outbox), "sent")
        assert (hook.asked, proxy.asked) == (1, 0)


@pytest.mark.parametrize("behave", ["refuse", "cut", "stall"])
def test_a_server_that_fails_is_asked_again_later_and_gets_it_once(
    outbox: Outbox, hook: Webhook, behave: str
) -> None:
    hook.behave = behave
    outbox.post(message())
    outbox.push(NOW_MS)
    until(lambda: settled(outbox), "the first try has failed")
    (posted,) = outbox.posted()
    assert posted.standing.state is What.FAILED
    assert posted.standing.found.startswith("json://127.0.0.1")
    began = posted.standing.next_ms
    assert began is not None
    asked = hook.asked
    outbox.push(began - 1)
    assert settled(outbox) and hook.asked == asked
    hook.behave = "take"
    _let_time_pass(outbox)
    outbox.push(began)
    until(lambda: len(hook.taken) == 1 and settled(outbox, tries=2), "the second try has arrived")
    assert [each.standing.state for each in outbox.posted()] == [What.SENT]


class Postbox:
    """A mail server's handler that knows some people and not others."""

    def __init__(self) -> None:
        self.unknown = {"gone@lab.example"}
        self.taken: list[str] = []

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, to: str, options: Any) -> str:
        if to in self.unknown:
            return "450 not now"
        envelope.rcpt_tos.append(to)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.taken += envelope.rcpt_tos
        return "250 taken"


def test_who_took_it_gets_no_second_copy_while_another_of_the_address_is_refused(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    box = Postbox()
    door = Controller(box, hostname="127.0.0.1", port=port)
    door.start()
    try:
        people = "ann@lab.example,gone@lab.example,bea@lab.example"
        address = f"mailto://127.0.0.1:{port}/?from=fallow@lab.example&mode=insecure&to={people}"
        for _ in range(2):
            assert "gone@lab.example" in send(message(), address, tmp_path)
        assert sorted(box.taken) == ["ann@lab.example", "bea@lab.example"]
        box.unknown.clear()
        assert send(message(), address, tmp_path) == ""
    finally:
        door.stop()
    assert sorted(box.taken) == ["ann@lab.example", "bea@lab.example", "gone@lab.example"]
    assert "lab.example" not in (tmp_path / "taken").read_text()


def test_a_service_killed_while_sending_neither_loses_nor_repeats(outbox: Outbox, hook: Webhook) -> None:
    """The sender is a process of its own; who starts anew finds it at work, or its result."""
    hook.behave, hook.stall_s = "stall", 0.7
    outbox.post(message())
    outbox.push(NOW_MS)
    until(lambda: hook.asked == 1, "the server has been asked")
    reborn = Outbox(outbox.folder.parent, lambda receiver: hook.address)
    reborn.push(NOW_MS + LONGEST_WAIT_MS)
    assert hook.asked == 1
    until(lambda: settled(reborn), "the first sender has ended")


def test_a_sender_that_is_killed_is_begun_again_after_its_wait(outbox: Outbox, hook: Webhook) -> None:
    hook.behave = "stall"
    outbox.post(message())
    outbox.push(NOW_MS)
    until(lambda: hook.asked == 1, "the server has been asked")
    os.kill(outbox._sending[0].pid, signal.SIGKILL)
    outbox._sending[0].wait()
    (posted,) = outbox.posted()
    assert posted.standing.state is What.BEGUN and posted.standing.next_ms is not None
    hook.behave = "take"
    _let_time_pass(outbox)
    outbox.push(posted.standing.next_ms)
    until(lambda: len(hook.taken) == 1, "it arrives")


def test_after_three_days_it_is_given_up_and_said(outbox: Outbox, hook: Webhook) -> None:
    outbox.post(message())
    outbox.push(NOW_MS + GIVE_UP_MS + 1)
    (posted,) = outbox.posted()
    assert posted.standing.state is What.GIVEN_UP and posted.standing.found
    outbox.push(NOW_MS + 2 * GIVE_UP_MS)
    assert hook.asked == 0


def test_a_message_without_an_address_waits_and_says_why(tmp_path: Path) -> None:
    config = DeliveryConfig(routes={"ops": ("json://h?password=${NOT_SET}",)})
    outbox = Outbox(tmp_path, lambda receiver: address_of(receiver, config, {}))
    outbox.post(message())
    outbox.push(NOW_MS)
    (posted,) = outbox.posted()
    assert posted.standing.state is What.FAILED and "$NOT_SET" in posted.standing.found


def test_secrets_are_in_no_file_of_the_outbox(tmp_path: Path, hook: Webhook) -> None:
    secret = "s3cr3t-pa55"
    config = DeliveryConfig(routes={"ops": (f"json://u:${{PASS}}@127.0.0.1:{hook.port}/?cto=1&rto=1",)})
    outbox = Outbox(tmp_path, lambda receiver: address_of(receiver, config, {"PASS": secret}))
    hook.behave = "refuse"
    outbox.post(message())
    outbox.push(NOW_MS)
    until(lambda: settled(outbox), "tried")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files and not any(secret.encode() in path.read_bytes() for path in files)


def test_a_half_written_message_is_no_message(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, lambda receiver: "json://nowhere")
    half = outbox.folder / f".{message().id}.new"
    half.mkdir(parents=True)
    (half / "message.json").write_text("{")
    assert list(outbox.posted()) == []
    assert outbox.post(message()) is True
    assert [each.message for each in outbox.posted()] == [message()]


def test_a_cut_off_line_of_the_log_is_no_event(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, lambda receiver: "json://nowhere")
    outbox.post(message())
    place = outbox.folder / message().id
    note(place, Event(at_ms=1, what=What.BEGUN))
    with (place / "log.jsonl").open("ab") as log:
        log.write(b'{"at_ms": 2, "wh')
    note(place, Event(at_ms=3, what=What.SENT))
    assert [event.what for event in read_log(place)] == [What.BEGUN, What.SENT]


@given(st.text(), st.text(), st.text(), st.text())
def test_any_text_is_kept_as_it_is(
    tmp_path_factory: pytest.TempPathFactory, key: str, to: str, title: str, text: str
) -> None:
    outbox = Outbox(tmp_path_factory.mktemp("outbox"), lambda receiver: "json://nowhere")
    posted = message(key, to=to, title=title, text=text)
    try:
        key.encode(), to.encode()
    except UnicodeEncodeError:
        return
    outbox.post(posted)
    assert read(outbox.folder / posted.id) == posted


@given(st.lists(st.sampled_from([What.BEGUN, What.FAILED])))
def test_waits_grow_to_six_hours_and_never_end_without_a_word(events: list[What]) -> None:
    log = [Event(at_ms=NOW_MS + n, what=what) for n, what in enumerate(events)]
    found = standing(message(), log)
    assert found.next_ms is not None
    assert found.next_ms - (log[-1].at_ms if log else NOW_MS) <= LONGEST_WAIT_MS
    assert [wait_ms(tries) for tries in (1, 2, 3)] == [FIRST_WAIT_MS, 2 * FIRST_WAIT_MS, 4 * FIRST_WAIT_MS]


def test_a_route_of_several_addresses_is_as_many_messages() -> None:
    config = DeliveryConfig(routes={"ops": ("json://a", "json://b")}, people={"ada": "ops"})
    assert receivers("ops", config) == ("ops#0", "ops#1")
    assert [address_of(each, config, {}) for each in receivers("ops", config)] == ["json://a", "json://b"]
    assert receivers("ntfy://topic", config) == ("ntfy://topic",)
    assert receiver_of("ada", config) == "ops" and receiver_of("bob", config) is None
    everybody = DeliveryConfig(person="mailto://mail.example.org/?to={user}@example.org")
    assert receiver_of("b b&x", everybody) == "mailto://mail.example.org/?to=b%20b%26x@example.org"


@pytest.mark.parametrize("receiver", ["ops#7", "ops#²", "ops#" + "1" * 5_000, "nobody", "nobody#0", "owners"])
def test_an_unknown_receiver_is_named(receiver: str) -> None:
    with pytest.raises(NoAddress, match=r"ops|owners"):
        address_of(receiver, DeliveryConfig(routes={"ops": ("json://a",)}), {})


def test_a_secret_that_is_no_text_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xff\xfe")
    config = DeliveryConfig(routes={"ops": (f"json://x:${{file:{tmp_path / 'key'}}}@127.0.0.1/",)})
    with pytest.raises(NoAddress, match="it is no text"):
        address_of("ops#0", config, {})


def test_a_secret_can_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "pass").write_text("a/b c\n")
    config = DeliveryConfig(routes={"ops": (f"mailto://u:${{file:{tmp_path}/pass}}@h",)})
    assert address_of("ops#0", config, {}) == "mailto://u:a%2Fb%20c@h"
    (tmp_path / "pass").unlink()
    with pytest.raises(NoAddress, match="cannot be read"):
        address_of("ops#0", config, {})


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("mailtos://user:secret@mail.example.org/?to=a", "mailtos://mail.example.org"),
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ", "slack://..."),
        ("json://h:8080/secret-path?token=1", "json://h:8080"),
        ("mailtos://mail.example.org/?from=a@b.org&pass=secret", "mailtos://mail.example.org"),
        ("mailto://user:12/se@cret@mail.example.org", "mailto://..."),
        ("json://u:p@[::1]:80/x", "json://[::1]:80"),
        ("slack://bot@T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ", "slack://..."),
        ("discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js/?x=a@b", "discord://..."),
    ],
)
def test_an_address_is_shown_without_its_secrets(address: str, shown: str) -> None:
    assert harmless(address) == shown


def _let_time_pass(outbox: Outbox) -> None:
    """Date the log's events back: senders take the machine's time, and nobody waits half a minute here."""
    for posted in outbox.posted():
        place = outbox.folder / posted.message.id
        events = read_log(place)
        (place / "log.jsonl").unlink()
        for event in events:
            note(place, Event(at_ms=0, what=event.what, found=event.found))
