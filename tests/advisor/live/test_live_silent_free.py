"""A free GPU that fell silent: kept from jobs, and never said to be used by somebody nobody saw."""

from collections.abc import Callable
from typing import Any

import pytest

from advisor.explain import Decisions, Explanation, explain
from advisor.live.snapshot import Site, read_live
from advisor.live.stored_analysis import Judged, recorded_analysis
from advisor.planner.limits import PlannerConfig
from advisor.planner.plan import Plan
from tests.analytics.world import A1, MINUTE_MS, TWO_MS

SEEN_FREE = "Nobody holds it."
NOT_SEEN = "Nobody is known to hold it, and whether somebody uses it is not known:"


# A1 was last held at 13:00, is seen free at 14:00 and never after 14:03. A look takes the last ten minutes.
@pytest.mark.parametrize(("minutes", "says"), [(0, SEEN_FREE), (12, SEEN_FREE), (15 * 60, NOT_SEEN)])
def test_explain_says_who_uses_a_gpu_only_as_far_as_it_was_seen(
    ask: Callable[..., list[dict[str, Any]]], minutes: int, says: str
) -> None:
    now_ms = TWO_MS + minutes * MINUTE_MS
    analysis = recorded_analysis((), (), now_ms, judged=Judged(at_ms=now_ms, good_for_ms=0))
    live = read_live(lambda name, given: ask(name, **given), analysis, Site(), PlannerConfig())
    gpu = live.state.gpus[A1]
    assert (gpu.occupied, gpu.unseen) == (says is NOT_SEEN,) * 2
    decisions = Decisions(state=live.state, observed=live.observed, answers=(), plan=Plan(as_of_ms=now_ms))
    told = explain(A1, decisions, {})
    assert isinstance(told, Explanation)
    assert told.facts[1].startswith(says)
