"""What a screen is told of reports: when each comes next, what became of it, and whose papers lie there."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from service.client import connect
from service.errors import CannotReport
from service.notify.message import Event, Message, What
from service.notify.outbox import Outbox, glimpses, note
from service.reports.due import write_times
from service.reports.on_request import Paper, papers, read_paper
from service.reports.schedules import Schedule, receivers, schedules
from service.usecases.advised import settings

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DUE = datetime(2026, 11, 16, 7, tzinfo=UTC)
CONFIG = """
[delivery]
person = "mailtos://robot:secret@mail.example.org/?to={user}@example.org"
[delivery.routes]
ops = ["json://hooks.example.org/x", "ntfy://ntfy.example.org/y"]
[alerts]
dashboard_url = "http://gpus.example.org"
[reports.monday]
kind = "cluster-week"
cron = "0 8 * * mon"
zone = "Europe/Berlin"
to = ["ops", "mailtos://robot:${PASSWORD}@mail.example.org/?to=boss@example.org"]
[reports.mine]
kind = "my-week"
cron = "30 8 * * mon"
to = ["owners"]
[reports.bill]
kind = "chargeback"
cron = "0 7 1 * *"
folder = "bills"
format = "csv"
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "fallow.toml").write_text(CONFIG)
    return tmp_path


def named(data: Path, name: str) -> Schedule:
    with connect(data) as client:
        found = schedules(client, NOW)
    assert found is not None
    return next(each for each in found if each.name == name)


def post(data: Path, key: str, to: str = "ops#0", text: str = "x") -> Path:
    message = Message(key=key, to=to, title="t", text=text, made_ms=1)
    Outbox(data, lambda receiver: receiver).post(message)
    return data / "outbox" / message.id


def listed(data: Path) -> tuple[Paper, ...]:
    with connect(data) as client:
        found = papers(client)
    assert found is not None
    return found


def test_a_schedule_says_when_it_comes_next_and_names_no_secret(data: Path) -> None:
    write_times(data, {"monday": DUE})
    found = named(data, "monday")
    assert found.next_at == datetime(2026, 11, 23, 7, tzinfo=UTC)
    assert found.settled_at == DUE
    assert found.to == ("ops", "mailtos://mail.example.org")
    assert "secret" not in repr(found) and "PASSWORD" not in repr(found) and "boss" not in repr(found)
    assert named(data, "mine").settled_at is None
    assert named(data, "mine").last is None


def test_the_settings_on_a_page_name_no_secret(data: Path) -> None:
    with connect(data) as client:
        found = {each.key: each.value for each in settings(client) or ()}
    assert found["alerts.dashboard_url"] == "http://gpus.example.org"
    assert found["delivery.person"] == "mailtos://mail.example.org"
    assert found["delivery.routes.ops"] == ("json://hooks.example.org", "ntfy://ntfy.example.org")
    assert found["reports.monday.to"] == ("ops", "mailtos://mail.example.org")
    assert "secret" not in repr(found) and "PASSWORD" not in repr(found)


def test_a_schedule_that_is_none_says_so_and_hides_no_other(data: Path) -> None:
    (data / "fallow.toml").write_text(CONFIG.replace("30 8 * * mon", "99 8 * * mon"))
    assert "is no schedule" in named(data, "mine").trouble
    assert named(data, "monday").trouble == ""


def test_what_became_of_the_newest_is_told_by_state(data: Path) -> None:
    key = f"report:monday:{DUE.isoformat()}:"
    older = post(data, f"report:monday:{DUE.replace(day=9).isoformat()}:", "ops#0")
    note(older, Event(at_ms=5, what=What.GIVEN_UP, found="long ago"))
    sent, refused = post(data, key, "ops#0"), post(data, key, "ops#1")
    for place in (sent, refused):
        note(place, Event(at_ms=1_000, what=What.BEGUN))
    note(sent, Event(at_ms=2_000, what=What.SENT))
    note(refused, Event(at_ms=3_000, what=What.FAILED, found="ntfy://ntfy.example.org: 503"))
    post(data, f"report:monday-too:{DUE.isoformat()}:")
    last = named(data, "monday").last
    assert last is not None
    assert last.due == DUE
    assert last.counts == {"sent": 1, "failed": 1}
    assert last.trouble == "ntfy://ntfy.example.org: 503"
    assert last.at == datetime.fromtimestamp(3, UTC)
    assert last.next_at == datetime.fromtimestamp(33, UTC)


def test_a_glimpse_stands_where_the_message_stands(data: Path) -> None:
    """The same standing as the outbox works out, for keys and receivers of any signs, and long texts."""
    for at, key in enumerate(('report:a"b:\\ü\n', "report:" + "k" * 900, "report:" + "\N{SNOWMAN}" * 300)):
        place = post(data, key, to=f'json://{{"to"}}:{at}', text="y" * 100_000)
        note(place, Event(at_ms=7 + at, what=What.FAILED, found="no"))
    outbox = Outbox(data, lambda receiver: receiver)
    seen = {(each.key, each.to): each.standing for each in glimpses(outbox.folder, "report:")}
    assert seen == {(each.message.key, each.message.to): each.standing for each in outbox.posted()}
    assert len(seen) == 3
    assert not list(glimpses(outbox.folder, "alert:"))


def test_a_torn_message_costs_no_other_its_place(data: Path) -> None:
    post(data, f"report:monday:{DUE.isoformat()}:")
    (data / "outbox" / "torn").mkdir()
    (data / "outbox" / "torn" / "message.json").write_text('{"key": "report:monday')
    (data / "outbox" / "other").mkdir()
    (data / "outbox" / "other" / "message.json").write_text(json.dumps({"to": "x", "key": "report:monday:"}))
    last = named(data, "monday").last
    assert last is not None and last.counts == {"waiting": 1}


def test_papers_are_told_by_schedule_and_whose_they_are(data: Path) -> None:
    for folder, name in (
        ("reports", "monday-2026-11-16T0700.html"),
        ("reports", "mine-ada-2026-11-16T0730.html"),
        ("reports", "mine-a_b-2026-11-16T0730.html"),
        ("reports", "gone-eve-2026-11-16T0730.html"),
        ("reports", "notes.txt"),
        ("reports", ".monday-2026-11-16T0700.html.new"),
        ("bills", "bill-2026-11-01T0700.csv"),
        ("bills", "monday-2026-11-16T0700.html"),
    ):
        (data / folder).mkdir(exist_ok=True)
        (data / folder / name).write_text("text")
    found = {(each.path.parent.name, each.name): each for each in listed(data)}
    told = {key: (each.schedule, each.personal, each.subject) for key, each in found.items()}
    assert told == {
        ("reports", "monday-2026-11-16T0700.html"): ("monday", False, None),
        ("reports", "mine-ada-2026-11-16T0730.html"): ("mine", True, "ada"),
        ("reports", "mine-a_b-2026-11-16T0730.html"): ("mine", True, "a_b"),
        ("reports", "gone-eve-2026-11-16T0730.html"): (None, True, None),
        ("bills", "bill-2026-11-01T0700.csv"): ("bill", False, None),
        ("bills", "monday-2026-11-16T0700.html"): (None, True, None),
    }
    assert [each.due for each in listed(data)] == sorted((e.due for e in listed(data)), reverse=True)


def test_a_link_in_the_folder_is_not_followed(data: Path) -> None:
    (data / "token").write_text("secret")
    (data / "reports").mkdir()
    (data / "reports" / "monday-2026-11-16T0700.html").symlink_to(data / "token")
    assert listed(data) == ()


def test_a_paper_that_is_gone_says_so(data: Path) -> None:
    (data / "reports").mkdir()
    path = data / "reports" / "monday-2026-11-16T0700.html"
    path.write_text("text")
    (paper,) = listed(data)
    assert read_paper(paper) == "text"
    path.unlink()
    with pytest.raises(CannotReport, match="cannot be read"):
        read_paper(paper)


def test_a_schedule_whose_name_is_the_head_of_another_is_told_apart(data: Path) -> None:
    """``mine`` writes ``mine-x-TIME`` for a person x, and so does a schedule called ``mine-x``."""
    more = '[reports.mine-x]\nkind = "cluster-week"\ncron = "0 8 * * *"\n'
    (data / "fallow.toml").write_text(f"{CONFIG}{more}")
    (data / "reports").mkdir()
    (data / "reports" / "mine-x-2026-11-16T0800.html").write_text("text")
    (paper,) = listed(data)
    assert paper.personal


def test_receivers_are_the_routes_and_people_if_they_can_be_reached(data: Path) -> None:
    with connect(data) as client:
        assert receivers(client).routes == ("ops",)
        assert receivers(client).owners
    (data / "fallow.toml").write_text("")
    with connect(data) as client:
        assert receivers(client).routes == () and not receivers(client).owners
