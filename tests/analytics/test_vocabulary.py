"""Each name of the vocabulary has its words, a colour wherever it is drawn, and a place in the order."""

from collections.abc import Iterable, Mapping
from enum import StrEnum

import pytest

from analytics.vocabulary.actions import ACTIONS, ADVISED, ActionClass
from analytics.vocabulary.alerts import ALERTS, AlertKind
from analytics.vocabulary.findings import KINDS, FindingKind
from analytics.vocabulary.patterns import LAST, NAMES, PatternKind
from analytics.vocabulary.reports import REPORTS, ReportKind
from analytics.vocabulary.states import STATES, GpuState
from service.alerts.model import EVENTS
from service.alerts.rules import RULES
from service.charts.theme import DARK, LIGHT
from service.cli import colours
from service.pages.parts.advised import LIKE
from tests.docs.docs_reading import ROOT


@pytest.mark.parametrize(
    ("members", "said"),
    [
        (GpuState, [state.key for state in STATES]),
        (FindingKind, KINDS),
        (PatternKind, NAMES),
        (ActionClass, ACTIONS),
        (AlertKind, ALERTS),
        (ReportKind, REPORTS),
    ],
)
def test_each_name_has_its_words_once(members: Iterable[StrEnum], said: Iterable[str]) -> None:
    assert sorted(members) == sorted(said)


@pytest.mark.parametrize(
    ("members", "drawn"),
    [
        (GpuState, LIGHT.states),
        (GpuState, DARK.states),
        (ActionClass, LIKE),
        (GpuState, colours.STATE_STYLES),
        (FindingKind, colours.FINDING_STYLES),
        (PatternKind, colours.PATTERN_STYLES),
        (ActionClass, colours.ACTION_STYLES),
        (AlertKind, colours.ALERT_STYLES),
    ],
)
def test_each_name_has_a_colour_wherever_it_is_drawn(
    members: Iterable[StrEnum], drawn: Mapping[str, str]
) -> None:
    missing = set(members) - set(drawn)
    assert not missing, f"without a colour: {sorted(missing)}"


def test_each_alert_has_a_rule() -> None:
    assert set(RULES) == set(AlertKind)


def test_the_orders_name_members_once() -> None:
    assert len(set(ADVISED)) == len(ADVISED) and set(ADVISED) < set(ActionClass)
    assert set(LAST) < set(PatternKind) and {AlertKind.JOB_ENDED} == EVENTS


@pytest.mark.parametrize("kind", [kind for kind, words in ALERTS.items() if not words.if_named])
def test_the_page_of_alerts_says_it_in_the_same_words(kind: AlertKind) -> None:
    page = (ROOT / "docs" / "alerts.md").read_text()
    assert f"| `{kind.value}` | {ALERTS[kind].says}" in page
