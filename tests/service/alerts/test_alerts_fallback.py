"""The alerts that need no store: told straight, once, by bounded means, and again when it is over."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from collector.clock import SystemClock
from service.alerts.fallback import DirectMessage, DirectSender, FallbackAlerts
from service.config.alerting import AlertsConfig
from service.config.telling import DeliveryConfig
from service.health.components import Component, ComponentState
from tests.advisor.jobs.job_store_world import HandClock
from tests.service.conftest import until
from tests.service.delivery.servers import Webhook, webhook

OPENS_S, QUIET_S = 120, 3600
CONFIG = replace(AlertsConfig(), to=("ops",), opens_after_s=OPENS_S, quiet_s=QUIET_S)


def component(name: str, *, bad: bool) -> Component:
    state = ComponentState.FAILING if bad else ComponentState.OK
    return Component(
        name=name, state=state, age_s=200.0, bound_s=30.0, reason="no room left" if bad else None
    )


class Desk:
    """The alerts, and what they would send."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.sent: list[DirectMessage] = []
        self.alerts = FallbackAlerts(CONFIG, self.sent.append, self.clock, lambda: "0 MiB of room for DATA")

    def look(self, *bad: str, after_s: float = 0) -> None:
        self.clock.pass_s(after_s)
        names = ("sampler", "source:nvml", "store", "alerts", "delivery")
        self.alerts.look([component(name, bad=name in bad) for name in names])


def test_a_store_that_cannot_be_written_is_told_once_it_lasts_and_once_it_is_over() -> None:
    desk = Desk()
    desk.look("store")
    desk.look("store", after_s=OPENS_S - 1)
    assert desk.sent == []
    desk.look("store", "source:nvml", after_s=2)
    (first,) = desk.sent
    assert "store" in first.title
    for part in ("store: no room left", "source:nvml", "0 MiB of room", "fallow doctor"):
        assert part in first.text
    desk.look("store", after_s=600)
    assert len(desk.sent) == 1
    desk.look(after_s=5)
    desk.look(after_s=5)
    assert [each.title.startswith("[Fallow] Over") for each in desk.sent] == [False, True]


def test_it_is_told_again_only_after_the_quiet_time() -> None:
    desk = Desk()
    desk.look("alerts")
    for _ in range(100):
        desk.look("alerts", after_s=120)
    assert len(desk.sent) == 1 + (100 * 120 - OPENS_S) // QUIET_S


def test_what_the_usual_alerts_can_tell_is_left_to_them() -> None:
    desk = Desk()
    for _ in range(10):
        desk.look("source:nvml", "sampler", after_s=600)
    assert desk.sent == []


def test_a_short_trouble_is_told_to_nobody_not_even_that_it_is_over() -> None:
    desk = Desk()
    for _ in range(5):
        desk.look("store", after_s=60)
        desk.look(after_s=10)
    assert desk.sent == []


@contextmanager
def sender(hook: Webhook) -> Iterator[DirectSender]:
    delivery = replace(DeliveryConfig(), routes={"ops": (hook.address,)})
    yield DirectSender(CONFIG, delivery, SystemClock())


@pytest.mark.slow
def test_a_message_reaches_a_real_server_with_nothing_kept_on_any_disk() -> None:
    with webhook() as hook, sender(hook) as direct:
        direct.send(DirectMessage(title="not well", text="store: no room left"))

        def taken() -> bool:
            direct.push()
            return bool(hook.taken)

        until("it is taken", taken, limit_s=30)
        assert (hook.taken[0]["title"], hook.taken[0]["message"]) == ("not well", "store: no room left")
        until("it is settled", lambda: settled(direct), limit_s=30)
        direct.push()
        assert hook.asked == 1


@pytest.mark.slow
def test_of_messages_that_nobody_takes_only_the_newest_is_kept() -> None:
    clock = HandClock()
    with webhook() as hook:
        hook.behave = "refuse"
        delivery = replace(DeliveryConfig(), routes={"ops": (hook.address,)})
        direct = DirectSender(CONFIG, delivery, clock)
        direct.send(DirectMessage(title="first", text="x"))
        until("it was tried", lambda: tried(direct) and hook.asked == 1, limit_s=30)
        until("it was refused", lambda: settled(direct), limit_s=30)
        for number in range(50):
            direct.send(DirectMessage(title=f"number {number}", text="x"))
        hook.behave = "take"
        until("the newest is taken", lambda: tried(direct) and bool(hook.taken), limit_s=30)
        until("it is settled", lambda: settled(direct), limit_s=30)
        assert [each["title"] for each in hook.taken] == ["number 49"]


def test_an_operator_without_an_address_is_said_in_the_log_and_nothing_breaks() -> None:
    direct = DirectSender(CONFIG, DeliveryConfig(), HandClock())
    direct.send(DirectMessage(title="not well", text="x"))
    direct.push()
    direct.push()
    DirectSender(replace(CONFIG, to=()), DeliveryConfig(), HandClock()).send(
        DirectMessage(title="a", text="b")
    )


def tried(direct: DirectSender) -> bool:
    direct.push()
    return True


def settled(direct: DirectSender) -> bool:
    """Whether nothing is being sent any more."""
    direct.push()
    return direct.under_way == 0
