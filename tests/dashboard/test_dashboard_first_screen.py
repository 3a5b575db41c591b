"""What the overview begins with: three parts of one whole, each beside the range before; where waste went."""

from dataclasses import fields

import pytest

from service.pages.parts.largest_wastes import html
from service.pages.parts.leading_figures import leading
from service.summaries.headline import Headline, change
from service.summaries.waste_table import Waste

DAY_S = 86_400


def head(given: float, used: float, wasted: float, **other: float) -> Headline:
    """One day of ten GPUs, all of it measured."""
    blank = {each.name: None for each in fields(Headline)}
    whole = {"installed_gpu_hours": 240.0, "there_ratio": 1.0, "measured_ratio": 1.0}
    hours = {"allocated_gpu_hours": given, "held_used_gpu_hours": used, "wasted_gpu_hours": wasted}
    return Headline(**{**blank, **whole, **hours, **other})  # type: ignore[arg-type]


def plain(told: str) -> str:
    return told.replace("\N{NARROW NO-BREAK SPACE}", " ").replace("\N{NO-BREAK SPACE}", " ")


def test_three_parts_are_of_one_whole_and_beside_the_range_before() -> None:
    # 180, 60 and 48 of 240 are 75, 25 and 20 %; the day before 120, 60.4 and 60 were 50, 25.2 and 25 %
    found = leading(head(180, 60, 48), head(120, 60.4, 60), DAY_S, None)
    assert [(each.label, plain(each.much)) for each in found] == [
        ("Given out", "180.0 GPU-hours"),
        ("Used", "60.0 GPU-hours"),
        ("Wasted outright", "48.0 GPU-hours"),
    ]
    assert [plain(each.beside) for each in found] == [
        "75% of 240.0 GPU-hours installed · 25 points more than in the 1 d before",
        "25% of 240.0 GPU-hours installed · as in the 1 d before",
        "20% of 240.0 GPU-hours installed · 5 points less than in the 1 d before",
    ]


def test_of_somebody_the_whole_is_what_they_held() -> None:
    (first, *_) = leading(head(240, 60, 48), head(120, 60, 60), DAY_S, "ada in vision")
    assert plain(first.beside).startswith("100% of 240.0 GPU-hours held by ada in vision")


@pytest.mark.parametrize(
    ("now", "before"),
    [
        (head(180, 60, 48, measured_ratio=0.89), head(120, 60, 60)),
        (head(180, 60, 48), head(120, 60, 60, measured_ratio=0.5)),
        (head(180, 60, 48), head(120, 60, 60, there_ratio=0.4)),
        (head(180, 60, 48), head(0, 0, 0, installed_gpu_hours=0.0, there_ratio=0.0)),
    ],
    ids=["little known now", "little known before", "there for a part of it", "not there before"],
)
def test_a_range_that_is_not_known_well_is_compared_with_nothing(now: Headline, before: Headline) -> None:
    assert change(now, before, lambda each: each.allocated_gpu_hours) is None
    assert all("before" not in each.beside for each in leading(now, before, DAY_S, None))


def waste(key: str | None, *, name: str | None = "train", user: str | None = "ada", **other: object) -> Waste:
    job = None if key is None else {"job": key, "job_name": name, "user_name": user}
    given = {
        **{"key": key, "gpu_hours": 12.5, "share_ratio": 0.5, "cost": None, "currency": None, "jobs": 1},
        **{"running": 0, "reasons": ("held-idle",), "worst": job, "live": None, "live_reason": None},
        **{"told_at": None, "told": None},
    }
    return Waste(**{**given, **other})  # type: ignore[arg-type]


def test_a_job_leads_to_its_page_and_an_ended_one_is_talked_about() -> None:
    shown = html([waste("slurm:1")], lambda job: f"jobs?job={job}&range=7d")
    assert '<a href="jobs?job=slurm:1&amp;range=7d" target="_self">train</a>' in shown
    assert "ended" in shown and "over: talk before the next one" in shown
    assert "<th" in shown and ">cost<" not in shown


def test_what_runs_has_the_command_of_its_remedy() -> None:
    job = {"job": "slurm:1", "job_name": "train", "user_name": "ada"}
    shown = html([waste("slurm:1", running=1, live=job, cost=3.0, currency="EUR")], str)
    assert "ended" not in shown and "<code>fallow explain slurm:1</code>" in shown
    assert ">cost<" in shown and "3.00" in shown


def test_whose_hours_nobody_knows_is_unknown_and_leads_nowhere() -> None:
    shown = html([waste(None)], str)
    assert "unknown" in shown and "<a " not in shown


def test_names_that_others_chose_are_text() -> None:
    evil = '"><img src=x onerror=alert(1)>'
    shown = html([waste(evil, name=evil, user=evil)], lambda job: f"jobs?job={job}")
    assert "<img" not in shown and shown.count("&lt;img") == 3
