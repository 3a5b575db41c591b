"""Who gets a word, what it says and when it goes out: tables over receivers, hours, zones and bounds."""

import shlex
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.model import Evidence
from analytics.text import evidence
from service.alerts.messages import (
    MOST,
    AlertMessage,
    Digest,
    Now,
    Receiver,
    audience,
    digest_of,
    goes_to,
    harmless,
    in_zone,
    letters_of,
    text_of,
    title_of,
    when,
    wishes_of,
)
from service.alerts.model import AlertKind, Change, Condition, Incident, Turn
from service.alerts.receivers import is_working, next_digest, next_hours
from service.alerts.rules import sight
from service.cli.parser import parse
from service.config.alerting import AlertsConfig, ReceiverConfig
from service.config.file import parse as parse_config
from service.config.model import ConfigError
from service.config.telling import DeliveryConfig
from tests.service.alerts.alert_parts import ANN, HOUR_MS, NOW_MS, condition, facts, finding, job, state

OFFICE = ReceiverConfig(
    zone="Europe/Berlin",
    days=("mon", "tue", "wed", "thu", "fri"),
    begins="08:00",
    ends="18:00",
    holidays=("2026-12-25",),
    digest_at=("09:00", "15:30"),
)
DELIVERY = DeliveryConfig(
    routes={"ops": ("json://ops",), "vision-heads": ("json://a", "json://b")},
    people={"bo": "ops"},
    projects={"vision": "vision-heads"},
)
REACHED = replace(DELIVERY, person="mailto://mail.example.org/?to={user}@example.org")
OPS = AlertsConfig(to=("ops",))
IDLE = condition(
    f"held-idle:{ANN}",
    job=ANN,
    user="ann",
    project="vision",
    do=f"fallow keep {ANN} --hours 4",
    evidence=(Evidence(name="idle_s", value=2400), Evidence(name="idle_gpu_hours", value=0.7)),
)


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("moment", "working"),
    [
        ("2026-11-23T07:59+01:00", False),
        ("2026-11-23T08:00+01:00", True),
        ("2026-11-23T17:59+01:00", True),
        ("2026-11-23T18:00+01:00", False),
        ("2026-11-22T12:00+01:00", False),
        ("2026-12-25T12:00+01:00", False),
    ],
)
def test_working_hours_are_those_of_the_receivers_zone(moment: str, working: bool) -> None:
    assert is_working(OFFICE, at(moment)) is working
    assert is_working(ReceiverConfig(), at(moment))


@pytest.mark.parametrize(
    ("moment", "begins", "digest"),
    [
        ("2026-11-23T02:00+01:00", "2026-11-23T08:00+01:00", "2026-11-23T09:00+01:00"),
        ("2026-11-23T09:00+01:00", "2026-11-24T08:00+01:00", "2026-11-23T15:30+01:00"),
        ("2026-11-27T20:00+01:00", "2026-11-30T08:00+01:00", "2026-11-30T09:00+01:00"),
        ("2026-12-24T20:00+01:00", "2026-12-28T08:00+01:00", "2026-12-28T09:00+01:00"),
        ("2026-03-28T20:00+01:00", "2026-03-30T08:00+02:00", "2026-03-30T09:00+02:00"),
    ],
)
def test_what_waits_comes_when_hours_begin_or_with_the_digest(moment: str, begins: str, digest: str) -> None:
    assert next_hours(OFFICE, at(moment)) == at(begins)
    assert next_digest(OFFICE, at(moment)) == at(digest)


def test_a_time_that_summer_time_skips_and_one_that_comes_twice_come_once() -> None:
    night = ReceiverConfig(zone="Europe/Berlin", digest_at=("02:30",))
    spring = next_digest(night, at("2026-03-28T12:00+01:00"))
    assert datetime.fromtimestamp(spring / 1000, UTC).date().isoformat() == "2026-03-29"
    autumn = next_digest(night, at("2026-10-24T12:00+02:00"))
    assert autumn == at("2026-10-25T02:30+02:00")
    assert next_digest(night, autumn) == at("2026-10-26T02:30+01:00")


@given(
    st.integers(NOW_MS, NOW_MS + 400 * 24 * HOUR_MS),
    st.sampled_from(["UTC", "Europe/Berlin", "America/Los_Angeles", "Pacific/Kiritimati", "Asia/Kolkata"]),
    st.sets(st.sampled_from(["mon", "wed", "sat"]), min_size=1),
)
def test_whenever_something_waits_it_comes_soon_and_in_working_hours(
    now_ms: int, zone: str, days: set[str]
) -> None:
    wishes = ReceiverConfig(zone=zone, days=tuple(days), begins="08:00", ends="18:00")
    begins, digest = next_hours(wishes, now_ms), next_digest(wishes, now_ms)
    assert now_ms < begins <= now_ms + 8 * 24 * HOUR_MS and is_working(wishes, begins)
    assert now_ms < digest <= now_ms + 8 * 24 * HOUR_MS and is_working(wishes, digest)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('kinds = ["idle"]', "held-idle"),
        ('[alerts.ops]\nzone = "Mars"', "no time zone"),
        ('[alerts.ops]\ndays = ["monday"]', "mon"),
        ("[alerts.ops]\ndays = []", "at least one working day"),
        ('[alerts.ops]\nholidays = ["20261225"]', "'20261225' is no day; write for example 2026-12-25"),
        ('to = ["opps"]', "alerts.to names 'opps', which is no route"),
        ('[alerts.ops]\nbegins = "8"', "08:30"),
        ('[alerts.ops]\nbegins = "18:00"\nends = "08:00"', "end before"),
        ('[alerts.ops]\nholidays = ["Christmas"]', "2026-12-25"),
        ("[alerts.ops]\ndigest_at = []", "digest_at is empty"),
        ('[alerts.ops]\ndigest_at = ["24:00"]', "00:00"),
        ('[alerts.ops]\nurgent = ["*"]', "held-idle"),
        ("[alerts.ops]\nmost_per_hour = 0", "1 to 1000"),
        ('dashboard_url = "gpus.example.org"', "https://"),
        ("quiet_s = -1", "0 to 604800"),
        ("quite_s = 5", "did you mean alerts.quiet_s?"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_with_what_would_do(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config(f"[alerts]\n{text}\n", origin="fallow.toml")
    assert says in str(error.value) and "fallow.toml" in str(error.value)


def test_the_example_of_the_reference_is_read() -> None:
    text = (ReceiverConfig.__doc__ or "").split("```toml")[1].split("```")[0]
    found = parse_config("\n".join(line.strip() for line in text.splitlines()), origin="x").config.alerts
    assert found.by_receiver["ops"].digest_at == ("09:00", "15:00")
    assert found.by_receiver["ops"].gather == ("held-idle", "memory-hog")


def who(of: Condition, config: AlertsConfig = OPS, delivery: DeliveryConfig = REACHED) -> list[str]:
    return [each.id for each in audience(of, config, delivery)]


@pytest.mark.parametrize(
    ("of", "told"),
    [
        (IDLE, ["user:ann", "project:vision", "to:ops"]),
        (replace(IDLE, by_ladder=True), ["project:vision", "to:ops"]),
        (replace(IDLE, user=None, project=None), ["to:ops"]),
        (replace(IDLE, project="audio"), ["user:ann", "to:ops"]),
        (condition("memory-hog:x", user="ann"), ["user:ann", "to:ops"]),
        (condition("gpu-fault:x", user="ann", project="vision", rung="falling"), ["user:ann", "to:ops"]),
        (condition("gpu-fault:x", user="ann", project="vision", rung="suspect"), ["to:ops"]),
        (
            condition("quota-starved:vision", user="ann", project="vision"),
            ["user:ann", "project:vision", "to:ops"],
        ),
        (condition("low-utilization:cluster"), ["to:ops"]),
        (condition("collector-blind:ticks"), ["to:ops"]),
    ],
)
def test_each_kind_goes_to_those_whom_it_concerns(of: Condition, told: list[str]) -> None:
    assert who(of) == told


def test_who_has_no_address_and_whom_nobody_wants_told_get_nothing() -> None:
    assert who(IDLE, delivery=DELIVERY) == ["project:vision", "to:ops"]
    assert who(replace(IDLE, user="bo"), delivery=DELIVERY) == ["user:bo", "project:vision", "to:ops"]
    assert who(IDLE, replace(OPS, owners=False)) == ["to:ops"]
    assert who(IDLE, AlertsConfig(), DeliveryConfig()) == []


def test_a_receivers_wishes_are_its_own_its_routes_or_everybodys() -> None:
    mine, routes, all_ = (ReceiverConfig(most_per_hour=n) for n in (1, 2, 3))
    config = replace(OPS, by_receiver={"ann": mine, "ops": routes, "*": all_})
    found = [
        wishes_of(Receiver.of(id), config, REACHED).most_per_hour
        for id in ("user:ann", "user:bo", "to:ops", "project:vision")
    ]
    assert found == [1, 2, 2, 3]
    assert wishes_of(Receiver.of("to:ops"), OPS, REACHED) == ReceiverConfig()
    assert goes_to(Receiver.of("project:vision"), REACHED) == "vision-heads"
    assert goes_to(Receiver.of("to:json://x:1/y"), REACHED) == "json://x:1/y"


NIGHT, NOON = at("2026-11-23T02:00+01:00"), at("2026-11-23T12:00+01:00")


@pytest.mark.parametrize(
    ("kind", "wishes", "moment", "lately", "goes"),
    [
        ("held-idle", ReceiverConfig(), NIGHT, 9, Now()),
        ("held-idle", ReceiverConfig(), NIGHT, 10, Digest(due_ms=at("2026-11-23T09:00+00:00"))),
        ("held-idle", OFFICE, NIGHT, 0, Digest(due_ms=at("2026-11-23T08:00+01:00"))),
        ("held-idle", OFFICE, NOON, 0, Now()),
        ("gpu-fault", OFFICE, NIGHT, 0, Now()),
        ("gpu-fault", replace(OFFICE, urgent=()), NIGHT, 0, Digest(due_ms=at("2026-11-23T08:00+01:00"))),
        ("gpu-fault", OFFICE, NOON, 10, Digest(due_ms=at("2026-11-23T15:30+01:00"))),
        (
            "held-idle",
            replace(OFFICE, gather=("held-idle",)),
            NOON,
            0,
            Digest(due_ms=at("2026-11-23T15:30+01:00")),
        ),
        (
            "gpu-fault",
            replace(OFFICE, gather=("*",)),
            NIGHT,
            0,
            Digest(due_ms=at("2026-11-23T09:00+01:00")),
        ),
    ],
)
def test_a_letter_goes_out_now_or_waits(
    kind: str, wishes: ReceiverConfig, moment: int, lately: int, goes: object
) -> None:
    assert when(AlertKind(kind), wishes, moment, lately) == goes


def change(of: Condition = IDLE, turn: Turn = Turn.OPENED, *, word: bool = True, **more: Any) -> Change:
    case = Incident(number=7, condition=of, opened_ms=NOW_MS, **more)
    return Change(case=case, turn=turn, word=word)


def sent(of: Change, config: AlertsConfig = OPS, **more: Any) -> list[AlertMessage]:
    given = {"recipients": (), "lately": {}, **more}
    return list(letters_of(of, NOW_MS, (config, REACHED), **given))


def test_a_change_that_is_worth_no_word_makes_no_letter() -> None:
    assert sent(change(word=False)) == []


def test_what_is_over_is_told_to_those_who_were_told_of_it() -> None:
    known = (Receiver.of("user:ann"), Receiver.of("to:old"))
    over = sent(change(turn=Turn.CLOSED, closed_ms=NOW_MS, because="it works again"), recipients=known)
    assert [letter.receiver.id for letter in over] == ["user:ann", "to:old"]
    assert over[0].title.startswith("Over: ") and over[0].text.startswith("This is over: it works again.")


def test_a_receiver_gets_the_kinds_that_it_wants() -> None:
    config = replace(OPS, by_receiver={"ops": ReceiverConfig(kinds=("gpu-fault",))})
    assert [letter.receiver.id for letter in sent(change(), config)] == ["user:ann", "project:vision"]


def test_above_the_bound_letters_wait_for_the_digest() -> None:
    (ann, *_) = sent(change(), lately={"user:ann": 10})
    assert ann.gathered and ann.due_ms == at("2026-11-02T09:00+00:00")


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(1, 7)), max_size=40), st.integers(1, 5))
def test_no_receiver_gets_more_in_any_hour_than_its_bound_and_nothing_is_lost(
    looks: list[tuple[int, int]], most: int
) -> None:
    config = AlertsConfig(to=("ops",), by_receiver={"*": ReceiverConfig(most_per_hour=most)})
    now_ms, alone, kept, made = NOW_MS, [], 0, 0
    for minutes, changes in looks:
        now_ms += minutes * 60_000
        for _ in range(changes):
            lately = sum(now_ms - at_ms < HOUR_MS for at_ms in alone)
            given = {"recipients": (), "lately": {"to:ops": lately}}
            (letter,) = letters_of(change(condition("gpu-fault:x")), now_ms, (config, DELIVERY), **given)
            made += 1
            kept += letter.gathered
            assert letter.gathered == (letter.due_ms > now_ms)
            if not letter.gathered:
                alone.append(now_ms)
    assert len(alone) + kept == made
    for at_ms in alone:
        assert sum(at_ms <= each < at_ms + HOUR_MS for each in alone) <= most


def test_a_letter_says_what_where_why_what_next_and_what_to_do() -> None:
    of = facts(state(job()), finding())
    found = sight(of, AlertsConfig(), ()).holds[f"held-idle:{ANN}"]
    text = sent(change(found), replace(OPS, dashboard_url="https://gpus.example.org/"))[0].text
    for part in (
        finding().sentence,
        "What happens next: Fallow does nothing to it by itself",
        "Evidence: idle 40 min; idle 0.7 GPU-hours; measured 98%; measure SM active.",
        f"To keep it: fallow keep {ANN} --hours 4",
        "https://gpus.example.org/jobs?job=pid%3Anode1%2F7%401",
        "Fallow, case 7, opened 2026-11-02 00:00 UTC.",
    ):
        assert part in text


def test_instants_are_told_in_the_receivers_zone() -> None:
    config = replace(OPS, by_receiver={"ann": replace(OFFICE, begins="00:00", ends="24:00")})
    text = sent(change(), config)[0].text
    assert "It is odd since 2026-11-02 00:00 CET." in text and "UTC" not in text
    assert in_zone("from 2026-07-01 12:00 UTC on", "Asia/Kolkata") == "from 2026-07-01 17:30 IST on"


@pytest.mark.parametrize("at", ["2026-02-30 12:00", "2026-11-02 24:30", "0001-01-01 00:00"])
def test_a_job_named_after_a_time_that_never_was_silences_nobody(at: str) -> None:
    assert in_zone(f"eval {at} UTC does nothing", "America/New_York") == f"eval {at} UTC does nothing"


@pytest.mark.parametrize("name", ["pid:node1/7@1", "pod:ns/x", "slurm:12_3", "fallow:7", "odd id;rm -rf /"])
def test_every_command_in_a_letter_is_one_that_can_be_typed(name: str) -> None:
    from service.alerts.phrases import keeping

    typed = shlex.split(keeping(name))
    assert typed[0] == "fallow"
    flags = parse(typed[1:]).flags
    assert (flags.verb, flags.job, flags.hours) == ("keep", name, 4)


def test_the_commands_of_all_other_kinds_can_be_typed() -> None:
    for said in ("fallow advise", "fallow queue", "fallow doctor", "fallow findings", "fallow alerts"):
        assert parse(shlex.split(said)[1:]).verb == said.split()[1]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("@everyone look", "@\u2060everyone look"),
        ("<!channel>", "<\u2060!channel>"),
        ("<@U123>", "<\u2060@U123>"),
        ("see http://evil.example", "see http:\u2060//evil.example"),
        ("[x](y) @ada ada@example.org", "[x]\u2060(y) @\u2060ada ada@example.org"),
        ("pid:node1/7@1", "pid:node1/7@1"),
        ("a\x1b]0;owned\x07b\r\nBcc: x", "a\\x1b]0;owned\\x07b\\r\\nBcc: x"),
    ],
)
def test_a_name_that_somebody_gave_a_job_does_nothing(said: str, shown: str) -> None:
    assert harmless(said) == shown


@given(st.text(max_size=9_000))
def test_no_text_breaks_a_letter(said: str) -> None:
    of = condition("memory-hog:x", title=said, says=said, next=said, user=said)
    case = Incident(number=1, condition=of, opened_ms=NOW_MS)
    title = title_of(case, Turn.OPENED)
    assert all(char.isprintable() or char == "\u2060" for char in title) and len(title) <= 4_200
    text_of(case, Turn.WORSE, ReceiverConfig()).encode()


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("utilization_mean_ratio", 0.004, ("utilization mean", "0.4%")),
        ("measured_ratio", 0.98, ("measured", "98%")),
        ("idle_s", 5400, ("idle", "1 h 30 min")),
        ("memory_used_bytes", 3 << 30, ("memory used", "3 GiB")),
        ("unused_gpu_hours", 2.25, ("unused", "2.2 GPU-hours")),
        ("power_mean_w", 71.6, ("power mean", "72 W")),
        ("reported_lost", True, ("reported lost", "yes")),
        ("tensorflow_signature", None, ("tensorflow signature", "not measured")),
        ("falls", 3, ("falls", "3")),
    ],
)
def test_evidence_is_written_with_its_unit(name: str, value: object, shown: tuple[str, str]) -> None:
    assert evidence(name, value) == shown


def letter(case: int, turn: Turn = Turn.OPENED, **changes: Any) -> AlertMessage:
    plain = AlertMessage(
        receiver=Receiver.of("to:ops"),
        case=case,
        opened_ms=NOW_MS,
        turn=turn.value,
        kind=AlertKind.HELD_IDLE,
        title=f"case {case}",
        text=f"words of {case}, {turn.value}",
        made_ms=NOW_MS,
        due_ms=NOW_MS + HOUR_MS,
        gathered=True,
        number=case,
    )
    return replace(plain, **changes)


def test_a_digest_tells_each_case_once_by_its_newest_word() -> None:
    made = digest_of([letter(1), letter(2), letter(1, Turn.WORSE), letter(3), letter(3, Turn.CLOSED)], NOW_MS)
    assert made.title == "3 alerts: case 1"
    assert "words of 1, worse" in made.text and "words of 1, opened" not in made.text
    assert made.text.startswith("2 cases, and 1 that came and went.")
    assert "- case 3" in made.text and "words of 3" not in made.text
    assert (made.case, made.turn, made.gathered, made.due_ms) == (0, "digest", False, NOW_MS)


def test_what_was_told_before_and_is_over_is_told_in_full() -> None:
    made = digest_of([letter(1, Turn.CLOSED), letter(2)], NOW_MS)
    assert "words of 1, closed" in made.text and made.text.startswith("2 cases.")


def test_a_single_letter_is_no_digest() -> None:
    made = digest_of([letter(1, telling="fallow:1")], NOW_MS)
    assert (made.case, made.text, made.telling, made.gathered) == (1, "words of 1, opened", "fallow:1", False)


def test_a_long_digest_is_bounded_and_says_so() -> None:
    made = digest_of([letter(n) for n in range(MOST + 40)], NOW_MS)
    assert "And 40 more: `fallow alerts` lists all." in made.text
