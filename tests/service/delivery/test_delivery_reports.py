"""Scheduled reports: late rather than never, once however often the service dies, by real mail and HTTP."""

import email
import json
import re
import shutil
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.message import Message as Mail
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from hypothesis import given
from hypothesis import strategies as st

from collector.clock import SystemClock
from service.client import connect
from service.config.file import parse
from service.config.model import Config, ConfigError
from service.config.telling import DeliveryConfig, ReportConfig
from service.notify.message import What, address_of
from service.notify.outbox import Outbox
from service.reports.due import BadSchedule, newest_due, next_due, read_times
from service.reports.posting import Order, post, span_of
from service.server import assemble
from service.server.report_schedule import Reporter, ReportFailed, make_reporting
from service.store.open import own_store
from tests.service.delivery.servers import webhook

pytestmark = pytest.mark.slow

MONDAY = ReportConfig(kind="cluster-week", cron="0 8 * * mon", zone="Europe/Berlin")
NIGHTLY = ReportConfig(kind="cluster-week", cron="30 2 * * *", zone="Europe/Berlin")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def test_a_report_is_due_at_its_wall_clock_time() -> None:
    after, now = at("2026-11-15T00:00+01:00"), at("2026-11-18T00:00+01:00")
    assert newest_due(MONDAY, after, now) == at("2026-11-16T08:00+01:00")
    assert newest_due(MONDAY, at("2026-11-16T08:00+01:00"), now) is None
    assert next_due(MONDAY, now) == at("2026-11-23T08:00+01:00")


def test_what_was_missed_many_times_is_made_once_for_the_newest() -> None:
    assert newest_due(MONDAY, at("2026-08-01T00:00Z"), at("2026-11-18T00:00Z")) == at("2026-11-16T07:00Z")


def test_a_night_without_half_past_two_has_its_report_and_one_with_two_has_one() -> None:
    spring = [newest_due(NIGHTLY, at("2026-03-28T12:00Z"), at("2026-03-29T12:00Z"))]
    assert spring[0] is not None and spring[0].date().isoformat() == "2026-03-29"
    now, autumn, found = at("2026-10-24T12:00Z"), at("2026-10-24T12:00Z"), []
    while now < at("2026-10-25T12:00Z"):
        if (due := newest_due(NIGHTLY, autumn, now)) is not None:
            found.append(due)
            autumn = due
        now += timedelta(minutes=10)
    assert found == [at("2026-10-25T02:30+02:00")]
    assert next_due(NIGHTLY, found[0]) == at("2026-10-26T02:30+01:00")


@pytest.mark.parametrize(
    ("weekdays", "named"),
    [
        ("0", "sun"),
        ("1", "mon"),
        ("7", "sun"),
        ("1-5", "mon,tue,wed,thu,fri"),
        ("0-4", "sun,mon,tue,wed,thu"),
        ("5-7", "fri,sat,sun"),
        ("1,3,5", "mon,wed,fri"),
        ("1-5/2", "mon,wed,fri"),
        ("*/3", "sun,wed,sat"),
        ("mon-wed,6", "mon,tue,wed,sat"),
        ("*", "mon,tue,wed,thu,fri,sat,sun"),
    ],
)
def test_numbers_of_weekdays_mean_what_they_mean_in_a_crontab(weekdays: str, named: str) -> None:
    report, due, found = replace(MONDAY, cron=f"0 8 * * {weekdays}"), at("2026-11-15T12:00Z"), set()
    for _ in range(14):
        due = next_due(report, due) or due
        found.add(f"{due:%a}".lower())
    assert found == set(named.split(","))


@pytest.mark.parametrize(
    ("cron", "since"), [("0 8 * * mon", "7d"), ("0 8 * * *", "24h"), ("0 8 1 * *", "month")]
)
def test_what_comes_regularly_has_every_hour_once_when_clocks_change(cron: str, since: str) -> None:
    report = replace(MONDAY, cron=cron, since=since)
    due, spans = at("2026-09-30T00:00Z"), []
    while due < at("2027-04-10T00:00Z"):
        due = next_due(report, due) or due
        spans.append(span_of(Order(name="x", due=due, report=report, delivery=DeliveryConfig())))
    assert [each.start for each in spans[1:]] == [each.end for each in spans[:-1]]
    hours = replace(report, since="12h")
    short = span_of(Order(name="x", due=due, report=hours, delivery=DeliveryConfig()))
    assert short.end - short.start == timedelta(hours=12)


def test_a_month_before_the_last_day_of_one_is_the_last_day_of_the_other() -> None:
    report = replace(MONDAY, zone="Europe/Berlin", since="month")
    due = at("2027-03-31T06:00Z")
    found = span_of(Order(name="x", due=due, report=report, delivery=DeliveryConfig()))
    assert found.start == at("2027-02-28T07:00Z"), "at eight, in winter"


@given(st.lists(st.integers(1, 40 * 24 * 60), min_size=1, max_size=8))
def test_however_one_looks_nothing_is_made_twice_and_nothing_is_skipped_over(waits: list[int]) -> None:
    settled = now = at("2026-01-01T00:00Z")
    made = []
    for minutes in waits:
        now += timedelta(minutes=minutes)
        due = newest_due(MONDAY, settled, now)
        if due is not None:
            assert settled < due <= now
            made.append(due)
            settled = due
        upcoming = next_due(MONDAY, settled + timedelta(microseconds=1))
        assert due is None or (upcoming is not None and upcoming > now)
    assert made == sorted(set(made))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('kind = "cluster-year"\ncron = "0 8 * * mon"', "cluster-week"),
        ('kind = "cluster-week"\ncron = "every monday"', "five fields"),
        ('kind = "cluster-week"\ncron = "0 8 * * mon"\nzone = "Mars"', "time zone"),
        ('kind = "my-week"\ncron = "0 8 * * mon"', "owners"),
        ('kind = "project-week"\ncron = "0 8 * * mon"', "project"),
        ('cron = "0 8 * * mon"', "kind"),
        ('kind = "cluster-week"\ncron = "0 8 * * mon"\nsince = "a week"', "since: cannot read 'a week'"),
        (
            'kind = "cluster-week"\ncron = "0 8 * * mon"\nto = ["opps"]',
            r"toml:4: reports\.weekly\.to names 'opps'",
        ),
        (
            'kind = "cluster-week"\ncron = "0 8 * * mon"\nto = ["op"]\n[delivery.routes]\nops = []',
            "mean ops?",
        ),
    ],
)
def test_a_schedule_that_cannot_be_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=rf"fallow\.toml.*{says}|{says}"):
        parse(f"[reports.weekly]\n{text}\n", origin="fallow.toml")


@pytest.mark.parametrize("cron", ["99 8 * * mon", "0 8 * * 8", "0 8 * * 5-2", "0 8 * * */0", "0 8 * * ,1"])
def test_a_cron_that_is_none_is_refused_at_the_start(tmp_path: Path, cron: str) -> None:
    config = replace(Config(), reports={"x": replace(MONDAY, cron=cron)})
    with pytest.raises(BadSchedule, match=r"reports\.x\.cron"):
        make_reporting(config, tmp_path, SystemClock())


@dataclass(slots=True)
class Clock:
    """A clock that is set."""

    at: datetime

    def now_ms(self) -> int:
        return round(self.at.timestamp() * 1000)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with three days of a small cluster, and no service."""
    folder = tmp_path_factory.mktemp("due") / "data"
    folder.mkdir()
    made = Config()
    config = replace(
        made,
        collect=replace(made.collect, sources=("simulated",)),
        simulated=replace(made.simulated, nodes=1, backfill_days=3),
    )
    with own_store(folder, config) as store:
        body = assemble.assemble(config, store, SystemClock())
        body.prepare(lambda: False, lambda said: None)
        assert body.beat is not None
        body.beat.work()
        body.complete(lambda: False, lambda said: None)
    return folder


def reporter(data: Path, clock: Clock, delivery: DeliveryConfig, **reports: ReportConfig) -> Reporter:
    config = replace(Config(), reports=reports, delivery=delivery)
    outbox = Outbox(data, lambda receiver: address_of(receiver, delivery, {}))
    return Reporter(data, config, clock, outbox)  # type: ignore[arg-type]


def soon() -> datetime:
    """A minute ahead: what is posted now is due then, on a slow machine too."""
    return datetime.now(UTC) + timedelta(minutes=1)


def hourly(**more: Any) -> ReportConfig:
    return ReportConfig(**{"kind": "cluster-week", "cron": "0 * * * *", "since": "1d", **more})


def until(holds: Callable[[], bool], what: str, limit_s: float = 60) -> None:
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {limit_s} s: {what}"
        time.sleep(0.05)


def test_a_report_due_while_the_service_was_down_is_sent_once_and_late(data: Path) -> None:
    with webhook() as hook:
        delivery = DeliveryConfig(routes={"ops": (hook.address,)})
        clock = Clock(datetime.now(UTC).replace(minute=30) - timedelta(hours=5))
        late = hourly(to=("ops",), format="md")
        reporter(data, clock, delivery, late=late).look()
        assert hook.asked == 0 and "late" in read_times(data)
        clock.at = soon()
        for _ in range(3):
            reborn = reporter(data, clock, delivery, late=late)
            reborn.look()
        until(lambda: len(hook.taken) == 1, "the report has arrived")
        for _ in range(2):
            reporter(data, clock, delivery, late=late).look()
        assert len(hook.taken) == 1
        due = clock.at.replace(minute=0, second=0, microsecond=0)
        assert read_times(data)["late"] == due
        (written,) = (data / "reports").glob("late-*.md")
        assert f"{due:%Y-%m-%dT%H%M}" in written.name
        assert "GPU utilization" in hook.taken[0]["message"]


def test_killed_between_making_and_noting_it_is_not_sent_again(data: Path) -> None:
    """The note of the time is lost, as by a kill: the same report is made again, and its message is there."""
    with webhook() as hook:
        delivery = DeliveryConfig(routes={"ops": (hook.address,)})
        clock = Clock(datetime.now(UTC).replace(minute=30) - timedelta(hours=2))
        killed = hourly(to=("ops",), format="json")
        reporter(data, clock, delivery, killed=killed).look()
        before = (data / "report-times.json").read_text()
        clock.at = soon()
        reporter(data, clock, delivery, killed=killed).look()
        until(lambda: len(hook.taken) == 1, "the report has arrived")
        (data / "report-times.json").write_text(before)
        reporter(data, clock, delivery, killed=killed).look()
        time.sleep(0.5)
        assert len(hook.taken) == 1


def test_a_clock_that_was_ahead_and_is_set_right_silences_no_schedule(data: Path) -> None:
    real = datetime.now(UTC).replace(minute=30)
    clock, ahead = Clock(real + timedelta(days=400)), hourly(format="json")
    reporter(data, clock, DeliveryConfig(), ahead=ahead).look()
    clock.at = real
    reporter(data, clock, DeliveryConfig(), ahead=ahead).look()
    clock.at = real + timedelta(hours=1)
    reporter(data, clock, DeliveryConfig(), ahead=ahead).look()
    due = clock.at.replace(minute=0, second=0, microsecond=0)
    assert read_times(data)["ahead"] == due
    assert list((data / "reports").glob(f"ahead-{due:%Y-%m-%dT%H%M}.json"))


def test_a_schedule_may_be_called_anything(data: Path) -> None:
    with webhook() as hook:
        clock = Clock(datetime.now(UTC).replace(minute=30) - timedelta(hours=2))
        odd = {"../team/vision": hourly(kind="chargeback", to=("ops",), format="csv")}
        looking = reporter(data, clock, DeliveryConfig(routes={"ops": (hook.address,)}), **odd)
        looking.look()
        clock.at = soon()
        looking.look()
        until(lambda: len(hook.taken) == 1, "the report has arrived")
        (name,) = (each["filename"] for each in hook.taken[0]["attachments"])
        assert re.fullmatch(r"\.\._team_vision-[0-9a-f]{8}\.csv", name), "another than that of .._team_vision"


@pytest.mark.long
def test_cut_short_among_many_it_goes_on_with_those_who_have_none_yet(data: Path, tmp_path: Path) -> None:
    """Hundreds of people take longer than a report may take; who has theirs is not made anew each time."""
    mine = hourly(kind="my-week", to=("owners",), format="json")
    delivery = DeliveryConfig(person="json://127.0.0.1:9/{user}")
    order = Order(name="mine", due=datetime.now(UTC), report=mine, delivery=delivery)
    with connect(data) as client:
        first = post(order, tmp_path, client, order.due)
        (cut, *others) = sorted((tmp_path / "reports").iterdir())
        for path in (cut, *others):
            path.unlink()
        (gone, *_) = (each.message for each in Outbox(tmp_path, str).posted())
        shutil.rmtree(tmp_path / "outbox" / gone.id)
        again = post(order, tmp_path, client, order.due)
    assert len(others) >= 1 and len(first) == 2 * (1 + len(others))
    assert len([line for line in again if line.startswith("made before")]) == len(others)
    (made,) = (tmp_path / "reports").iterdir()
    assert gone.key.rpartition(":")[2] in made.name


def test_a_service_that_ends_does_not_wait_for_a_report_and_makes_it_next_time(data: Path) -> None:
    clock = Clock(datetime.now(UTC).replace(minute=30) - timedelta(hours=2))
    cut = hourly(format="json")
    ending = reporter(data, clock, DeliveryConfig(), cut=cut)
    ending.look()
    before = read_times(data)["cut"]
    clock.at = soon()
    ending.interrupt()
    with pytest.raises(ReportFailed, match="cut"):
        ending.look()
    assert read_times(data)["cut"] == before
    reporter(data, clock, DeliveryConfig(), cut=cut).look()
    assert read_times(data)["cut"] > before


@dataclass(slots=True)
class Postbox:
    """A mail server's handler; ``refuse`` makes it turn mail away for now."""

    refuse: bool = False
    mails: list[Mail] = field(default_factory=list)

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.refuse:
            return "451 try again later"
        self.mails.append(email.message_from_bytes(envelope.content))
        return "250 taken"


@pytest.fixture
def postbox() -> Iterator[tuple[Postbox, int]]:
    box = Postbox()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    door = Controller(box, hostname="127.0.0.1", port=port)
    door.start()
    try:
        yield box, port
    finally:
        door.stop()


@pytest.mark.long
def test_everybody_gets_a_mail_about_themselves_alone(data: Path, postbox: tuple[Postbox, int]) -> None:
    box, port = postbox
    person = f"mailto://127.0.0.1:{port}/?from=fallow@lab.example&to={{user}}@lab.example&mode=insecure"
    clock = Clock(datetime.now(UTC).replace(minute=30) - timedelta(hours=2))
    with connect(data) as client:
        today = clock.at.replace(minute=0, second=0, microsecond=0)
        people = client.rows("people", from_ts=today - timedelta(days=1), to_ts=today)
    (project, _), *_ = Counter(each["project"] for each in people if each["user_name"]).most_common()
    mine = hourly(kind="my-week", to=("owners",), project=project)
    looking = reporter(data, clock, DeliveryConfig(person=person), mine=mine)
    looking.look()
    clock.at = soon()
    looking.look()
    outbox = Outbox(data, lambda receiver: "")
    posted = [each for each in outbox.posted() if each.message.key.startswith("report:mine")]
    assert len(posted) >= 1
    until(lambda: (looking.look(), len(box.mails) >= len(posted))[1], "all mails have arrived", 120)
    assert len(box.mails) == len(posted)
    for mail in box.mails:
        user = str(mail["To"]).strip("<>").partition("@")[0]
        parts = {part.get_content_type(): part.get_payload(decode=True) for part in mail.walk()}
        text = parts["text/html"].decode()  # type: ignore[union-attr]
        assert f"Your GPUs, {user}" in text
        assert "<script" not in text


def test_a_mail_server_that_recovers_gets_it(data: Path, postbox: tuple[Postbox, int]) -> None:
    box, port = postbox
    address = f"mailto://127.0.0.1:{port}/?from=fallow@lab.example&to=head@lab.example&mode=insecure"
    box.refuse = True
    clock = Clock(datetime.now(UTC).replace(minute=30) - timedelta(hours=2))
    looking = reporter(data, clock, DeliveryConfig(routes={"head": (address,)}), head=hourly(to=("head",)))
    looking.look()
    clock.at = soon()
    looking.look()
    outbox = Outbox(data, lambda receiver: "")

    def state() -> What | None:
        (posted,) = (each for each in outbox.posted() if each.message.key.startswith("report:head"))
        return posted.standing.state

    until(lambda: state() is What.FAILED, "the first try has failed")
    assert box.mails == []


def test_the_times_survive_and_a_damaged_file_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "report-times.json").write_text("{")
    assert read_times(tmp_path) == {}
    clock = Clock(at("2026-11-18T00:00Z"))
    reporter(tmp_path, clock, DeliveryConfig(), monday=MONDAY).look()
    assert json.loads((tmp_path / "report-times.json").read_text()) == {"monday": clock.at.isoformat()}
