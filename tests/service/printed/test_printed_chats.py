"""Messages with hostile names, as Apprise really sends them to each kind of chat: shown, never obeyed."""

import email
import email.message
import email.policy
import json
import re
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import unquote_plus, urlsplit

import pytest
import requests
from aiosmtpd.controller import Controller
from hypothesis import given, settings
from hypothesis import strategies as st

from service.alerts.messages import harmless
from service.notify.dialects import as_markdown, prepared, uncalled
from service.notify.message import Body, Message
from service.notify.sender import send
from tests.service.printed.hostile import HOSTILE, PLAIN

CHATS = {
    "slack": "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#general",
    "discord": f"discord://{'0123456789' * 2}/{'a' * 68}",
    "mattermost": "mmost://localhost/3ccdd113474722377935511fc85d3dd4",
    "teams": "workflows://host:443/643ebbb4d5554222aaaabbbbcccc/643ebbb4d5554222aaaabbbbccccaaaa",
    "rocketchat": "rocket://web/token@localhost/#general",
    "google chat": "gchat://workspace/key/token",
    "telegram": "tgram://123456789:ABCdefghijkl_opqrstuvwxyz1234567/12315544/",
    "matrix": "matrix://localhost/?mode=slack&token=abc",
    "zulip": f"zulip://bot@org/{'a' * 32}/stream/",
    "ntfy": "ntfy://localhost/topic",
}
READ_MARKDOWN = ("discord", "mattermost", "teams", "rocketchat", "zulip")
LINK = "https://gpus.example/jobs?job=slurm%3A12_3"
JOINER = "\u2060"


class Wire:
    """Takes whatever is posted to any server, on a real one on loopback."""

    def __init__(self) -> None:
        self.bodies: list[str] = []
        outer = self

        class Door(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.bodies.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b'{"ok": true, "success": true}')

            def do_PUT(self) -> None:
                self.do_POST()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        there = f"http://127.0.0.1:{self._server.server_port}"
        outward = requests.Session.request

        def inward(session: requests.Session, method: str, url: str, **more: Any) -> requests.Response:
            more.pop("verify", None)
            return outward(session, method, f"{there}{urlsplit(url).path}", **more)

        self._patch = patch.object(requests.Session, "request", inward)

    def __enter__(self) -> "Wire":
        self._patch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.stop()
        self._server.shutdown()
        self._server.server_close()

    def texts(self) -> list[str]:
        """All texts of the newest body, whatever its shape."""
        body = self.bodies[-1]
        try:
            return [text for text in leaves(json.loads(body)) if HOST.search(text) is None]
        except ValueError:
            return [unquote_plus(part.partition("=")[2]) for part in body.split("&")]


HOST = re.compile(r"^https?://\S+$")


def leaves(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from leaves(each)
        case list():
            for each in value:
                yield from leaves(each)


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with Wire() as made:
        yield made


def letter(name: str) -> Message:
    """As alerts write one: names on lines of ours, and a link of ours on a line of its own."""
    text = f"{harmless(f'{name} holds a GPU')}\n\nWhat happens next: {harmless(name)}\n\n{LINK}"
    return Message(key="k", to="chat", title=f"[Fallow] {harmless(name)}", text=text)


@pytest.mark.parametrize("chat", CHATS)
def test_nobodys_name_calls_mentions_or_links_anybody(wire: Wire, tmp_path: Path, chat: str) -> None:
    send(letter(HOSTILE), CHATS[chat], tmp_path)
    for text in wire.texts():
        assert not re.search(r"@(everyone|here|channel|all|room)\b", text), text
        assert not re.search(
            r"<[!@#A-Za-z/][^>]*>", re.sub(r"</?(b|i|strong|em|code|pre|br|p)\s*/?>", "", text)
        )
        assert not re.search(r"\]\s*\(\s*\S*evil", text), text
        assert not re.search(r"(?<!\\)\]\(", text.replace(JOINER, "")) or JOINER in text
        assert "http://evil" not in text
        assert all(line.replace(JOINER, "").isprintable() for line in text.replace("\r", "").split("\n"))


@pytest.mark.parametrize("chat", READ_MARKDOWN)
def test_a_chat_that_reads_markdown_shows_names_as_they_stand(wire: Wire, tmp_path: Path, chat: str) -> None:
    name = "my_job_v2 *b* _i_ `c` ~~s~~ [x] # 1. a|b > q"
    send(letter(name), CHATS[chat], tmp_path)
    (text,) = [each for each in wire.texts() if "What happens next" in each]
    told = re.search(r"What happens next: (.*)", text)
    assert told is not None
    assert not re.search(r"(?<!\\)[*_`\[\]|]", told[1]), told[1]
    assert re.sub(r"\\(?=[^\w\s]|_)", "", told[1]).replace("&gt;", ">") == name


@pytest.mark.parametrize("chat", CHATS)
def test_ordinary_names_stay_readable_and_our_link_a_link(wire: Wire, tmp_path: Path, chat: str) -> None:
    send(letter(PLAIN), CHATS[chat], tmp_path)
    told = "\n".join(wire.texts())
    assert PLAIN in re.sub(r"\\(?=[^\w\s]|_)", "", told)
    if chat in ("slack", "discord", "mattermost", "telegram", "matrix", "zulip", "ntfy"):
        assert LINK in told


@pytest.mark.parametrize("body", Body)
def test_a_mail_has_the_headers_that_we_gave_it_and_no_markup_of_names(body: Body, tmp_path: Path) -> None:
    taken: list[email.message.EmailMessage] = []

    class Box:
        async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:
            taken.append(email.message_from_bytes(envelope.content, policy=email.policy.default))
            return "250 OK"

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    post = Controller(Box(), hostname="127.0.0.1", port=port)
    post.start()
    try:
        message = Message(
            key="k",
            to="ops",
            title=f"[Fallow] {HOSTILE}\r\nBcc: evil@evil.example",
            text=letter(HOSTILE).text if body is Body.TEXT else "<p>hello</p>",
            body=body,
        )
        assert send(message, f"mailto://127.0.0.1:{port}/?from=f@x.example&to=t@x.example", tmp_path) == ""
    finally:
        post.stop()
    (mail,) = taken
    assert (mail["Bcc"], "t@x.example" in str(mail["To"])) == (None, True)
    assert "\n" not in str(mail["Subject"])
    if body is Body.TEXT:
        parts = [part.get_content() for part in mail.walk() if part.get_content_type() == "text/html"]
        assert not any(re.search(r"<(img|script|a)\b", html) for html in parts)
        assert "FORGED" in "".join(str(part.get_content()) for part in mail.walk() if not part.is_multipart())


@settings(max_examples=50)
@given(st.text(max_size=200))
def test_markdown_has_no_markup_of_a_name_left(name: str) -> None:
    title, text = prepared(name, name, Body.TEXT, frozenset({"discord"}))
    for each in (title, text):
        assert not re.search(r"(?<!\\)(?:\\\\)*[*_`\[\]~|>]", each)
    assert as_markdown("https://a.example/x_y") == "https://a.example/x_y"


@given(st.text(alphabet="@<>[]()ahlewrn!#: ", max_size=60))
def test_what_calls_is_broken_and_what_doesnt_is_left(text: str) -> None:
    made = uncalled(text)
    assert made.replace(JOINER, "") == text
    assert "](" not in made and "<!" not in made and "<@" not in made


def test_programs_get_the_words_as_they_are() -> None:
    assert prepared("t", HOSTILE, Body.TEXT, frozenset({"json", "jsons"})) == ("t", HOSTILE)


@pytest.mark.parametrize("body", [Body.HTML, Body.MARKDOWN])
def test_a_report_calls_nobody_and_keeps_its_style_sheet(body: Body) -> None:
    text = "<style>@media print {}</style> @everyone &lt;!channel&gt;"
    assert prepared("t", text, body, frozenset({"slack"}))[1] == text.replace(
        "@everyone", f"@{JOINER}everyone"
    )
