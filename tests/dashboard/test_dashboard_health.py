"""What the overview says of the service's components: ages in a line, and what is not well."""

from service.pages.parts.health import ages, unwell
from service.schemas.service import ComponentHealth


def component(name: str, state="ok", age_s: float | None = 3.0, reason: str | None = None) -> ComponentHealth:
    return ComponentHealth(name=name, state=state, age_s=age_s, bound_s=30.0, reason=reason)


WELL = [
    component("sampler"),
    component("source:nvml", age_s=75),
    component("findings"),
    component("cycle", age_s=None),
]


def test_ages_are_told_of_what_people_ask_about() -> None:
    told = ages(WELL).replace("\N{NARROW NO-BREAK SPACE}", " ").replace("\N{NO-BREAK SPACE}", " ")
    assert "sampler" in told and "source:nvml" in told and "cycle not yet" in told and "findings" not in told
    assert unwell(WELL) == []
    assert ages([component("findings")]) == "", "a replay has no component of these: then nothing is said"


def test_what_is_not_well_is_named_with_its_reason() -> None:
    bad = [
        component("source:nvml", "failing", 75, "no answer within 8 s"),
        component("findings", "late", 900),
    ]
    assert unwell([*WELL, *bad]) == [
        "source:nvml is failing: no answer within 8 s",
        "findings is late: nothing was heard of it",
    ]
    assert "findings" in ages([*WELL, *bad])
