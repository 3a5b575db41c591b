"""What one person may take: buckets, lines and places, each fair by itself. Time is a number here."""

import asyncio
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.api.allowance import MOST_KEPT, Allowance, Kind, Rate
from service.api.persons import person_at
from service.api.turns import Turn, Turns
from service.control.errors import OverLimit
from service.server.connection_limits import MOST_PARTING, PARTING_OF_ONE, ConnectionLimits, ConnectionSlots
from service.trust.persons import learn_lenders, person_of_uid

RATE = Rate(per_minute=60, at_once=3, per_job=6, what="orders", setting="limits.orders_per_minute")


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def allowance(jobs_of: Callable[[str], int] = lambda person: 0) -> tuple[Allowance, Clock]:
    clock = Clock()
    return Allowance({Kind.ORDER: RATE}, jobs_of, clock), clock


def taken(bucket: Allowance, person: str, tries: int) -> int:
    """How many of so many tries were granted."""
    granted = 0
    for _ in range(tries):
        try:
            bucket.take(person, Kind.ORDER)
            granted += 1
        except OverLimit:
            continue
    return granted


def test_so_many_at_once_and_then_as_time_goes() -> None:
    bucket, clock = allowance()
    assert taken(bucket, "eve", 10) == 3
    clock.now_s += 2
    assert taken(bucket, "eve", 10) == 2
    clock.now_s += 3600
    assert taken(bucket, "eve", 10) == 3, "nobody saves more than that"
    assert taken(bucket, "ann", 10) == 3, "one person's bucket is no other's"


def test_a_refusal_says_which_bound_how_much_and_when_to_ask_again() -> None:
    bucket, clock = allowance()
    taken(bucket, "eve", 3)
    clock.now_s += 0.25
    with pytest.raises(OverLimit) as refused:
        bucket.take("eve", Kind.ORDER)
    assert str(refused.value) == (
        "too many orders: one person has 3 at once and 60 a minute (limits.orders_per_minute); "
        "ask again in 1 s"
    )
    clock.now_s += refused.value.retry_after_s
    bucket.take("eve", Kind.ORDER)


def test_who_has_jobs_has_more() -> None:
    bucket, clock = allowance(lambda person: 10 if person == "ann" else 0)
    assert taken(bucket, "ann", 100) == 63
    clock.now_s += 1
    assert taken(bucket, "ann", 100) == 2


def test_a_crowd_is_forgotten_from_its_oldest_end_and_takes_no_memory() -> None:
    bucket, _ = allowance()
    taken(bucket, "eve", 3)
    for number in range(MOST_KEPT):
        taken(bucket, f"address {number}", 1)
        if number % 1000 == 0:
            assert taken(bucket, "eve", 1) == 0, "who goes on asking is remembered"


def test_one_persons_requests_stand_in_a_line_of_their_own() -> None:
    async def story() -> list[str]:
        turns, done = Turns(at_once=1, waiting=2, what="questions", setting="limits.questions"), []
        first = await turns.enter("eve")

        async def another(name: str) -> None:
            turn = await turns.enter("eve")
            done.append(name)
            turn.end()

        tasks = [asyncio.create_task(another(name)) for name in ("a", "b")]
        await asyncio.sleep(0)
        with pytest.raises(OverLimit, match=r"3 questions of yours .*limits\.questions.* in 1 s"):
            await turns.enter("eve")
        (await turns.enter("ann")).end()
        (await turns.enter(None)).end()
        assert done == []
        first.end()
        first.end()
        await asyncio.gather(*tasks)
        (await turns.enter("eve")).end()
        return done

    assert asyncio.run(story()) == ["a", "b"]


@given(st.lists(st.sampled_from(["enter", "leave", "give up"]), max_size=30))
def test_no_turn_is_lost_or_given_twice(steps: list[str]) -> None:
    async def story() -> None:
        turns = Turns(at_once=2, waiting=100, what="x", setting="x")
        running: list[Turn] = []
        waiting: list[asyncio.Task[Turn]] = []

        async def settle() -> None:
            for _ in range(3):
                await asyncio.sleep(0)
            for each in [task for task in waiting if task.done()]:
                waiting.remove(each)
                running.append(each.result())

        for step in steps:
            if step == "enter":
                waiting.append(asyncio.create_task(turns.enter("eve")))
            elif step == "leave" and running:
                running.pop(0).end()
            elif step == "give up" and waiting:
                waiting.pop().cancel()
            await settle()
            assert len(running) <= 2
            assert not waiting or len(running) == 2, "nobody waits for a turn that nobody has"
        for each in (*running, *[await task for task in waiting if not task.cancel()]):
            each.end()

    asyncio.run(story())


RULES = ConnectionLimits(total=20, of_one=4, reserved=6)


def test_nobody_holds_more_connections_than_one_may() -> None:
    places = ConnectionSlots(RULES)
    assert [places.come("eve") for _ in range(4)] == [None] * 4
    assert "4 connections of yours are open" in str(places.come("eve"))
    assert "limits.connections" in str(places.come("eve"))
    assert places.come("ann") is None
    places.go("eve")
    assert places.come("eve") is None


def test_launchers_streams_are_counted_apart_and_end_as_well() -> None:
    places = ConnectionSlots(RULES)
    for _ in range(RULES.streams_of_one):
        assert places.come("ann") is None
        places.stream("ann", True)
    assert [places.come("ann") for _ in range(4)] == [None] * 4
    assert places.come("ann") is not None
    places.stream("ann", False)
    assert places.come("ann") is not None, "it is an ordinary connection now"


def test_the_last_places_are_for_operators_and_for_owners_of_running_jobs() -> None:
    places = ConnectionSlots(RULES, is_operator={"root"}.__contains__, has_gpus={"ann"}.__contains__)
    for number in range(14):
        assert places.come(f"account {number // 4}") is None
    assert "api.connections" in str(places.come("bo"))
    assert [places.come("ann") for _ in range(4)] == [None] * 4
    assert [places.come("root") for _ in range(2)] == [None] * 2
    assert "api.connections" in str(places.come("root")), "there are no more than there are"


def test_who_is_elsewhere_never_shuts_the_door_for_who_is_here() -> None:
    places = ConnectionSlots(RULES)
    came = [places.come(f"address {n}", is_remote=True) for n in range(12)]
    assert came.count(None) == RULES.remote
    assert places.come("bo") is None
    places.go("address 0", is_remote=True)
    assert places.come("address 99", is_remote=True) is None


def test_only_so_many_refused_ones_stay_to_read_why() -> None:
    places = ConnectionSlots(RULES)
    eves = [places.linger("eve") for _ in range(PARTING_OF_ONE + 1)]
    assert eves == [True] * PARTING_OF_ONE + [False]
    others = [places.linger(f"account {number // 2}") for number in range(MOST_PARTING)]
    assert others.count(True) == MOST_PARTING - PARTING_OF_ONE
    places.part("eve")
    assert places.linger("eve")


def test_who_was_told_often_enough_is_turned_away_unheard() -> None:
    places = ConnectionSlots(RULES, is_operator={"root"}.__contains__)
    for person in ("eve", "root"):
        for _ in range(4):
            places.come(person)
        for _ in range(PARTING_OF_ONE):
            assert not places.is_shed(person)
            places.linger(person)
    assert places.is_shed("eve") and not places.is_shed("root") and not places.is_shed("ann")
    places.part("eve")
    assert not places.is_shed("eve")
    assert b"429" in places.shed_answer and b"limits.connections" in places.shed_answer


def test_the_uids_of_an_accounts_containers_are_one_person(tmp_path: Path) -> None:
    lent = tmp_path / "subuid"
    lines = ("# comment", "ann-of-no-machine:100000:65536", "bo-of-no-machine:165536:65536")
    lent.write_text("\n".join([*lines, "1002:300000:1", "broken:x:1", ""]))
    learn_lenders(lent)
    assert {person_of_uid(uid, lent) for uid in (100_000, 123_456, 165_535)} == {
        "containers of ann-of-no-machine"
    }
    assert person_of_uid(165_536, lent) == "containers of bo-of-no-machine"
    assert [person_of_uid(uid, lent) for uid in (0, 1000, 99_999, 231_072, 300_001)] == [
        "uid 0",
        "uid 1000",
        "uid 99999",
        "uid 231072",
        "uid 300001",
    ]
    assert person_of_uid(123_456, tmp_path / "none") == "uid 123456"


def test_an_account_and_the_uids_that_it_was_lent_are_one_person(tmp_path: Path) -> None:
    lent = tmp_path / "subuid"
    lent.write_text("daemon:100000:65536\n1002:300000:1\nroot:400000:65536\n0:500000:1\n")
    learn_lenders(lent)
    account = pwd.getpwnam("daemon").pw_uid
    assert person_of_uid(100_007, lent) == person_of_uid(account, lent) == f"uid {account}"
    assert person_of_uid(300_000, lent) == person_of_uid(1002, lent)
    assert person_of_uid(400_005, lent) == "containers of root", "what root runs for others is not root"
    assert person_of_uid(500_000, lent) == "containers of 0"


def test_an_operator_s_containers_take_nothing_of_what_is_in_reserve(tmp_path: Path) -> None:
    lent = tmp_path / "subuid"
    lent.write_text("1002:300000:1\n1003:300001:1\n")
    places = ConnectionSlots(RULES, is_operator={"uid 1002"}.__contains__)
    assert places.person_of_uid(1002, lent) == "uid 1002"
    assert places.person_of_uid(300_000, lent) == "containers of uid 1002"
    assert places.person_of_uid(300_001, lent) == places.person_of_uid(1003, lent) == "uid 1003"


def test_who_is_elsewhere_is_an_address_or_a_network() -> None:
    assert person_at("10.0.0.7") == "address 10.0.0.7"
    assert person_at("::ffff:10.0.0.7") == "address 10.0.0.7"
    assert person_at("2001:db8:1:2:3::4") == person_at("2001:db8:1:2:ffff::") == "network 2001:0db8:0001:0002"
    assert person_at("2001:db8:1:3::4") != person_at("2001:db8:1:2::4")
    assert person_at("") == "somebody"


def test_what_is_kept_is_counted_by_its_length() -> None:
    clock = Clock()
    rate = Rate(per_minute=16 / 1440, at_once=16, what="MiB of orders", setting="limits.kept_mib_per_day")
    bucket = Allowance({Kind.KEPT: rate}, now_s=clock)
    for _ in range(32):
        bucket.take("eve", Kind.KEPT, 0.5)
    bucket.take("eve", Kind.KEPT, 0.0)
    why = r"16 at once and 0\.011 a minute \(limits\.kept_mib_per_day\)"
    with pytest.raises(OverLimit, match=why) as refused:
        bucket.take("eve", Kind.KEPT, 0.5)
    assert refused.value.retry_after_s == 2700
    clock.now_s += 2700
    bucket.take("eve", Kind.KEPT, 0.5)
    bucket.take("ann", Kind.KEPT, 16)
