"""``[deciding]``: the bounds that a site sets are those that decisions keep."""

from dataclasses import asdict, fields

import pytest

from advisor.engines.cuda_checkpoint import TRIED_DRIVERS
from advisor.planner.limits import Lending, Limits, Order
from service.config.deciding import DecidingConfig
from service.config.file import parse
from service.config.model import Config, ConfigError
from service.usecases.advice import limits_of

TEXT = """
[deciding]
order = "shortest"
lending = "jobs"
actions_per_hour = 20
idle_surcharge = 1
"""


def test_what_nobody_set_is_what_decisions_take_by_themselves() -> None:
    bounds, meant = limits_of(Config()), Limits()
    for item in fields(DecidingConfig):
        assert getattr(bounds, item.name) == getattr(meant, item.name), item.name


def test_what_a_site_sets_is_what_decisions_get() -> None:
    config = parse(TEXT, origin="f").config
    found = limits_of(config)
    assert (found.order, found.lending) == (Order.SHORTEST, Lending.JOBS)
    assert found.actions_per_hour == 20 and found.idle_surcharge == 1.0
    said = {**asdict(config.deciding), "order": Order.SHORTEST, "lending": Lending.JOBS}
    assert all(getattr(found, name) == value for name, value in said.items())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('order = "fastest"', "order is one of arrival, shortest, youngest, goodput, not 'fastest'"),
        ('lending = "users"', "lending is one of projects, jobs, not 'users'"),
        ("actions_per_hour = 0", "actions_per_hour"),
        ("min_runtime = 5", "did you mean deciding.min_runtime_s"),
        ("idle_surcharge = -1", "idle_surcharge"),
    ],
)
def test_mistakes_are_refused_with_their_place(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse(f"[deciding]\n{text}", origin="f")


def test_drivers_that_may_pause_strangers_are_the_sites_own() -> None:
    assert parse("", origin="f").config.foreign.drivers == TRIED_DRIVERS
    assert parse("[foreign]\ndrivers = [580, 590]", origin="f").config.foreign.drivers == (580, 590)


@pytest.mark.parametrize("text", ["[550]", '["590"]', "590"])
def test_drivers_without_a_timeout_for_the_lock_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"foreign\.drivers"):
        parse(f"[foreign]\ndrivers = {text}", origin="f")
