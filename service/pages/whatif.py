"""What if: move a threshold, and see over the recorded history what it would have caught and disturbed."""

from collections.abc import Mapping, Sequence

import streamlit as st

from analytics import text
from analytics.vocabulary.actions import ActionClass
from service.charts.whatif import charged_chart, compared, given_chart
from service.pages.data import queries
from service.pages.parts.charted import charted
from service.pages.parts.context import PageContext, Site, drawn
from service.pages.parts.widgets import facts, keys, swatch
from service.usecases.advised import Replayed, Rule

MOVED: Mapping[str, tuple[str, float]] = {
    "tell_interactive_s": ("Tell somebody at a notebook after", 60.0),
    "tell_batch_s": ("Tell the owner of a batch job after", 60.0),
    "pause_interactive_s": ("Pause an idle notebook after", 60.0),
    "pause_batch_s": ("Pause an idle batch job after", 60.0),
    "fit_p95": ("Right-size: busiest use of the smaller share", 0.01),
    "fit_memory": ("Right-size: memory of the smaller share", 0.01),
    "pack_p95": ("Pack: each at most this busy", 0.01),
    "pack_p95_sum": ("Pack: both together at most", 0.01),
}
"""The rules that a replay turns on: their words, and how much of their unit one step of a slider is."""

ACTIONS: Mapping[str, str] = {
    "tell": "Told, and let go",
    "pause": "Paused and resumed",
    ActionClass.RIGHT_SIZE: "Right-sized",
    ActionClass.CAP_MEMORY: "Memory capped",
    ActionClass.PACK: "Packed",
    ActionClass.SCHEDULE: "Started on free GPUs",
    ActionClass.CONSOLIDATE: "Moved to make room",
    ActionClass.RESIZE: "Grown",
}
DEEDS: Mapping[str, str] = {
    ActionClass.CAP_MEMORY: "memory caps",
    ActionClass.SCHEDULE: "starts on free GPUs",
    ActionClass.CONSOLIDATE: "moves",
    ActionClass.RESIZE: "growth",
}
COLUMNS = {
    "action": "What",
    "how": "How",
    "gpu_hours": "Given back",
    "low": "At least",
    "high": "At most",
    "before": "By the rules in force",
    "money": "Worth",
    "jobs": "Jobs",
    "times": "Times",
    "disturbed": "Disturbed",
}


CHARGED = {
    "project": "Project",
    "allocated_ratio": "Held of the cluster",
    "held_idle_ratio": "Held and idle",
    "part": "Part now",
    "part_charged": "Part then",
}

HELD_AGAINST: Mapping[str, tuple[str, str]] = {
    ActionClass.RIGHT_SIZE: (
        "Sizes advised from the first half of this time are held against {} of the same kinds in the second.",
        "job",
    ),
    ActionClass.CAP_MEMORY: ("Memory caps are held against what {} of the same kinds needed.", "later job"),
    ActionClass.PACK: ("Pairs are held against {}.", "trial"),
    ActionClass.CONSOLIDATE: ("Moves are held against {} as it went.", "wait"),
    ActionClass.RESIZE: ("Growth is held against {}.", "measured speed"),
}
"""By what the bar of each class was earned, and what one of those is called."""


def show(site: Site) -> None:
    """Draw the page."""
    drawn(site, _body)


def _body(scene: PageContext) -> None:
    rules = {rule.name: rule for rule in queries.rules()}
    answer = st.container()  # stands above the sliders, which say what is asked
    st.subheader("With other rules", anchor=False)
    changed = _sliders([rules[name] for name in MOVED if name in rules])
    consented = st.toggle("Only the jobs of those who consented", key="whatif-consented")
    window = (scene.window.from_ts, scene.window.to_ts)
    before = queries.replayed(*window, (), consented)
    after = queries.replayed(*window, tuple(sorted(changed.items())), consented) if changed else before
    with answer:
        _answer(scene, before, after, changed)
    if after.jobs:
        _charging(scene)


def _answer(scene: PageContext, before: Replayed, after: Replayed, changed: dict[str, float]) -> None:
    """What the rules would have given back: in a sentence, with its error, and by kind of action."""
    st.header(_sentence(after, before, changed), anchor=False)
    facts(
        [
            ("over", f"{scene.when(scene.window.from_ts)} to {scene.when(scene.window.to_ts)}"),
            ("jobs", text.count(after.jobs)),
            ("held", text.gpu_hours(after.held_gpu_hours)),
        ]
    )
    st.caption(_bar(after))
    if not after.jobs:
        st.caption("No job was recorded in this time; choose a longer range.")
        return
    keys(
        (
            (
                swatch(scene.colours.used),
                "with the rules below" if changed else "by the rules in force",
                None,
            ),
            *(((swatch(scene.colours.stripe), "by the rules in force", None),) if changed else ()),
        )
    )
    frame = compared(after, before, ACTIONS)
    columns = [name for name in COLUMNS if name in frame and (name != "before" or changed)]
    charted(
        given_chart(frame, scene.colours, both=bool(changed)),
        "GPU-hours that each kind of action would have given back, with the error that was earned",
        frame[columns].rename(columns=COLUMNS),
        "what-if",
        numbers="What each kind of action would have given back",
    )
    st.caption(
        "Rows overlap: the same hour is in as many as could have given it back. What people would have done "
        "otherwise is not in it." + _bare(after)
    )


def _charging(scene: PageContext) -> None:
    """Who would borrow less, and who more, were held-idle hours charged once more."""
    frame = queries.charged(scene.window.to_ts)
    if len(frame) < 2:
        return
    st.subheader("If held-idle hours were charged", anchor=False)
    st.caption(
        "Who used more lately borrows less of what no quota claims. That charges what was held; charged once "
        "more for the hours that lay idle, these would be the parts when all ask for more than there is."
    )
    keys(
        (
            (swatch(scene.colours.used), "idle hours charged once more", None),
            (swatch(scene.colours.stripe), "as decided now", None),
        )
    )
    charted(
        charged_chart(frame, scene.colours),
        "Each project's part of the GPUs that no quota claims, now and with held-idle hours charged",
        frame.rename(columns=CHARGED),
        "charging",
        numbers="Each project's use of the week before, and its part of what is lent",
    )


def _sliders(rules: Sequence[Rule]) -> dict[str, float]:
    """The sliders, two a line; what was moved away from the value in force."""
    changed: dict[str, float] = {}
    columns = st.columns(2, gap="large")
    for at, rule in enumerate(rules):
        label, unit = MOVED[rule.name]
        in_minutes = unit == 60.0
        with columns[at % 2]:
            if in_minutes:
                # The slider's end: a day, or the value in force where that is more.
                minutes = st.slider(
                    f"{label} (min)",
                    int(rule.low / 60),
                    max(min(int(rule.high / 60), 1440), int(rule.value / 60)),
                    int(rule.value / 60),
                    step=5,
                    key=f"rule-{rule.name}",
                )
                value = float(minutes * 60)
            else:
                share = st.slider(
                    f"{label} (%)",
                    round(rule.low * 100),
                    round(rule.high * 100),
                    round(rule.value * 100),
                    key=f"rule-{rule.name}",
                )
                value = share / 100
        if abs(value - rule.value) > 1e-9:
            changed[rule.name] = value
    st.button("As in force", key="rules-reset", disabled=not changed, on_click=_reset, args=(tuple(rules),))
    return changed


def _reset(rules: Sequence[Rule]) -> None:
    for rule in rules:
        st.session_state.pop(f"rule-{rule.name}", None)


def _sentence(after: Replayed, before: Replayed, changed: Mapping[str, float]) -> str:
    now, then = _hours(after, "pause"), _hours(before, "pause")
    if not changed:
        return f"Pausing idle jobs by the rules in force would have given back {text.gpu_hours(now)}"
    more = now - then
    way = "more" if more >= 0 else "less"
    return (
        f"With these rules, pausing would have given back {text.gpu_hours(now)}: "
        f"{text.gpu_hours(abs(more))} {way}, disturbing somebody {_times(after)} instead of {_times(before)}"
    )


def _hours(replay: Replayed, action: str) -> float:
    return sum(float(each["gpu_hours"]) for each in replay.given if each["action"] == action)


def _times(replay: Replayed) -> str:
    times = sum(int(each["disturbed"]) for each in replay.given if each["action"] == "pause")
    return "once" if times == 1 else f"{text.count(times)} times"


def _bar(replay: Replayed) -> str:
    earned = replay.earned
    if earned["median_error"] is None or earned["total_error"] is None:
        return "Too few idle times were recorded to earn an error bar."
    return (
        f"The error bars are earned: of {text.count(earned['cases'])} times that an owner would have been "
        f"told, what was expected then was off by {text.percent(earned['median_error'])} at the median."
        + _others(replay)
    )


def _bare(replay: Replayed) -> str:
    """The classes that have no row."""
    if not replay.bare:
        return ""
    *first, last = (DEEDS[action] for action in replay.bare)
    named = f"{', '.join(first)} or {last}" if first else last
    return f" Nothing would have come of {named}; only jobs of `fallow run` say what these need to know."


def _others(replay: Replayed) -> str:
    """What the bars of the other classes were earned by, where they have one."""
    cases = {str(each["action"]): int(each["cases"]) for each in replay.given if each["low"] is not None}
    return "".join(
        " " + words.format(text.many(cases[action], one))
        for action, (words, one) in HELD_AGAINST.items()
        if cases.get(action)
    )
