"""Who shares a GPU with whom: the largest expected joint speed, learnt from short trials. Pure.

Speeds are relative to running alone, 0..1, and belong to one GPU model: what was measured on a V100 says
nothing of an A100, so an ``Experience`` names its model and two of them are never mixed. Whether two jobs
may share at all (same user, memory, start-up, ...) is decided in ``pack``; nothing of it is known here.

The expectation for a pair that was never tried is a Bayesian linear model, fitted to the trials there are:
``speed(a beside b) = prior + patience(a) + pressure(b) + rest``, with ``patience, pressure ~ N(0, spread^2)``
and ``rest ~ N(0, residual^2)``. An untried pair is weighed by the upper end of what it may be (Auer 2002,
"Using confidence bounds for exploitation-exploration trade-offs"), so that promising unknowns are tried
first and disappointments once. The matching is exact: Edmonds' blossom algorithm as rustworkx has it
(``docs/decisions/0004-matching-by-rustworkx.md``).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import rustworkx as rx

WEIGHT_SCALE = 1_000_000
"""rustworkx matches by whole numbers; a millionth of a GPU is below anything that is measured."""

# Below this the cut normal's mean would be a quotient of two rounding errors.
LEAST_CHANCE = 1e-6

Couple = tuple[str, str]
"""Two profiles in alphabetical order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What ``first`` and ``second`` reached side by side, each as a share of its own speed alone.

    A speed of 0 means that it could not run. ``windows`` is how many windows the means are over.
    """

    first: str
    second: str
    first_speed: float
    second_speed: float
    windows: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Experience:
    """All that was measured of pairs on one GPU model; ``undone`` are couples that were parted for good."""

    gpu_model: str
    trials: Mapping[Couple, Trial] = field(default_factory=dict)
    undone: frozenset[Couple] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PairingRules:
    """``foreground_floor``: a slower foreground is too slow. ``gain_floor``: what a pair must add, in GPUs.

    ``curiosity`` is how many standard deviations an untried pair is given for free. ``prior``, ``spread`` and
    ``residual`` are of the model above; they say what is thought before anything was tried, and no more.
    """

    foreground_floor: float = 0.9
    gain_floor: float = 0.05
    undo_windows: int = 3
    curiosity: float = 2.0
    prior: float = 0.7
    spread: float = 0.15
    residual: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """Two places of the list that was asked about; the foreground is the one that may not be slowed.

    Speeds are expected ones. ``foreground_worst`` is two standard deviations below; of a measured pair it is
    what was measured, because the undo rule watches it from there on. ``chance`` is how likely it is that the
    foreground keeps its floor, and ``kept_speed`` what it reaches then: who does not is parted, and gains
    nothing.
    """

    foreground: int
    guest: int
    foreground_speed: float
    guest_speed: float
    foreground_worst: float
    measured: bool
    chance: float = 1.0
    kept_speed: float | None = None

    @property
    def gain(self) -> float:
        """What sharing is expected to add, in GPUs: the joint speed less the one job that runs anyway."""
        speed = self.foreground_speed if self.kept_speed is None else self.kept_speed
        return self.chance * (speed + self.guest_speed - 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Belief:
    """Mean and standard deviation of a profile's speed beside another."""

    mean: float
    deviation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proposal:
    """A pairing of places 0 and 1, and what the matching is to count it for, in GPUs."""

    pairing: Pairing
    weight: float


Believe = Callable[[str, str], _Belief]


def choose_pairs(
    profiles: Sequence[str],
    experience: Experience,
    rules: PairingRules,
    may_share: Callable[[int, int], bool] = lambda first, second: True,
    *,
    explore: bool = True,
) -> tuple[Pairing, ...]:
    """The couples of ``profiles`` that together add the most, each place at most once; in order of place.

    ``explore=False`` takes measured couples only. The same input gives the same answer.
    """
    believe = _beliefs(profiles, experience, rules)
    proposals: dict[Couple, _Proposal | None] = {}
    graph: rx.PyGraph[int, int] = rx.PyGraph(multigraph=False)
    graph.add_nodes_from(range(len(profiles)))
    chosen: dict[tuple[int, int], Pairing] = {}
    for first, second in combinations(range(len(profiles)), 2):
        if not may_share(first, second):
            continue
        couple = couple_of(profiles[first], profiles[second])
        if couple not in proposals:
            proposals[couple] = _proposal(couple, experience, believe, rules, explore)
        proposal = proposals[couple]
        if proposal is not None:
            graph.add_edge(first, second, int(proposal.weight * WEIGHT_SCALE))
            chosen[first, second] = _placed(proposal.pairing, couple, (first, second), profiles)
    matched = rx.max_weight_matching(graph, weight_fn=int)
    return tuple(chosen[pair] for pair in sorted((min(pair), max(pair)) for pair in matched))


def expected_speeds(
    first: str, second: str, experience: Experience, rules: PairingRules
) -> tuple[float, float, bool]:
    """The expected speeds of two profiles side by side, and whether they were measured."""
    couple = couple_of(first, second)
    trial = experience.trials.get(couple)
    if trial is not None:
        return _speed_of(trial, first), _speed_of(trial, second, other=True), True
    believe = _beliefs((first, second), experience, rules)
    return _clipped(believe(first, second).mean), _clipped(believe(second, first).mean), False


def expected_gain(first: str, second: str, experience: Experience, rules: PairingRules) -> float:
    """What putting these two on one GPU is expected to add, in GPUs; 0 where nothing speaks for it."""
    couple = couple_of(first, second)
    believe = _beliefs(couple, experience, rules)
    proposal = _proposal(couple, experience, believe, rules, explore=True)
    return 0.0 if proposal is None else max(0.0, proposal.pairing.gain)


def learn(experience: Experience, trial: Trial) -> Experience:
    """The experience with one more trial; windows of a couple already known are averaged in."""
    couple = couple_of(trial.first, trial.second)
    new = trial if couple == (trial.first, trial.second) else _turned(trial)
    old = experience.trials.get(couple)
    if old is not None:
        windows = old.windows + new.windows
        new = replace(
            new,
            first_speed=(old.first_speed * old.windows + new.first_speed * new.windows) / windows,
            second_speed=(old.second_speed * old.windows + new.second_speed * new.windows) / windows,
            windows=windows,
        )
    return replace(experience, trials={**experience.trials, couple: new})


def part(experience: Experience, first: str, second: str) -> Experience:
    """The experience in which these two are not put together again."""
    return replace(experience, undone=experience.undone | {couple_of(first, second)})


def must_undo(foreground_speeds: Iterable[float | None], rules: PairingRules) -> bool:
    """Whether the newest windows, oldest first, were all too slow for the foreground.

    A window that was not measured is not slow, and breaks the row: nothing is undone on what nobody saw.
    """
    newest = list(foreground_speeds)[-rules.undo_windows :]
    return len(newest) == rules.undo_windows and all(
        speed is not None and speed < rules.foreground_floor for speed in newest
    )


def turned(pair: Pairing) -> Pairing:
    """The same pair with the other one as its foreground, as far as is known: both means are told alike."""
    return replace(
        pair,
        foreground=pair.guest,
        guest=pair.foreground,
        foreground_speed=pair.guest_speed,
        guest_speed=pair.foreground_speed,
        foreground_worst=_clipped(pair.foreground_worst - pair.foreground_speed + pair.guest_speed),
    )


def couple_of(first: str, second: str) -> Couple:
    """The two in alphabetical order."""
    return (first, second) if first <= second else (second, first)


def _proposal(
    couple: Couple, experience: Experience, believe: Believe, rules: PairingRules, explore: bool
) -> _Proposal | None:
    """What these two would be side by side; ``None``: parted before, or not worth it."""
    if couple in experience.undone:
        return None
    trial = experience.trials.get(couple)
    if trial is not None:
        return _measured(trial, rules)
    if not explore:
        return None
    first, second = believe(*couple), believe(couple[1], couple[0])
    hoped = _hoped(first, rules), _hoped(second, rules)
    if max(hoped) < rules.foreground_floor or sum(hoped) - 1.0 < rules.gain_floor:
        return None
    ahead = first if first.mean >= second.mean else second
    pairing = _oriented(_clipped(first.mean), _clipped(second.mean))
    chance, floor_speed = _above_floor(ahead, rules.foreground_floor)
    guessed = replace(
        pairing,
        foreground_worst=_clipped(ahead.mean - 2 * ahead.deviation),
        measured=False,
        chance=chance,
        kept_speed=floor_speed,
    )
    return _Proposal(pairing=guessed, weight=sum(hoped) - 1.0)


def _above_floor(belief: _Belief, floor: float) -> tuple[float, float]:
    """How likely a speed is at least ``floor``, and what it is then: the mean of a normal, cut at 1."""
    speed = NormalDist(belief.mean, belief.deviation)
    chance, full = 1 - speed.cdf(floor), 1 - speed.cdf(1.0)
    if chance < LEAST_CHANCE:
        return 0.0, floor
    below = belief.mean * (chance - full) + belief.deviation**2 * (speed.pdf(floor) - speed.pdf(1.0))
    return chance, _clipped((below + full) / chance)


def _measured(trial: Trial, rules: PairingRules) -> _Proposal | None:
    pairing = _oriented(trial.first_speed, trial.second_speed)
    could_run = pairing.guest_speed > 0
    if not could_run or pairing.foreground_speed < rules.foreground_floor or pairing.gain < rules.gain_floor:
        return None
    return _Proposal(pairing=pairing, weight=pairing.gain)


def _oriented(first: float, second: float) -> Pairing:
    """Places 0 and 1; the one that is slowed less is the foreground."""
    foreground = 0 if first >= second else 1
    ahead = max(first, second)
    return Pairing(
        foreground=foreground,
        guest=1 - foreground,
        foreground_speed=ahead,
        guest_speed=min(first, second),
        foreground_worst=ahead,
        measured=True,
    )


def _placed(proposal: Pairing, couple: Couple, places: tuple[int, int], profiles: Sequence[str]) -> Pairing:
    ordered = places if profiles[places[0]] == couple[0] else (places[1], places[0])
    return replace(proposal, foreground=ordered[proposal.foreground], guest=ordered[proposal.guest])


def _beliefs(profiles: Sequence[str], experience: Experience, rules: PairingRules) -> Believe:
    """The model fitted to the trials: normal equations over a patience and a pressure for each profile."""
    names = sorted({*profiles, *(name for couple in experience.trials for name in couple)})
    place = {name: at for at, name in enumerate(names)}
    count = len(names)
    precision: npt.NDArray[np.float64] = np.eye(2 * count) / rules.spread**2
    pull = np.zeros(2 * count)
    noise = rules.residual**2
    for trial in experience.trials.values():
        pairs = (
            (trial.first, trial.second, trial.first_speed),
            (trial.second, trial.first, trial.second_speed),
        )
        for mine, other, speed in pairs:
            # One's own patience and the other's pressure: who slows others much may be slowed little.
            at = [place[mine], count + place[other]]
            precision[np.ix_(at, at)] += 1 / noise
            pull[at] += (speed - rules.prior) / noise
    # The prior alone makes it positive definite: it can always be inverted.
    covariance = np.linalg.inv(precision)
    effect = covariance @ pull

    def believe(mine: str, other: str) -> _Belief:
        at = (place[mine], count + place[other])
        variance = covariance[at[0], at[0]] + covariance[at[1], at[1]] + 2 * covariance[at[0], at[1]] + noise
        return _Belief(
            mean=float(rules.prior + effect[at[0]] + effect[at[1]]), deviation=float(variance) ** 0.5
        )

    return believe


def _hoped(belief: _Belief, rules: PairingRules) -> float:
    return _clipped(belief.mean + rules.curiosity * belief.deviation)


def _clipped(speed: float) -> float:
    return min(1.0, max(0.0, speed))


def _speed_of(trial: Trial, name: str, *, other: bool = False) -> float:
    is_first = trial.first == name and not (other and trial.first == trial.second)
    return trial.first_speed if is_first else trial.second_speed


def _turned(trial: Trial) -> Trial:
    return replace(
        trial,
        first=trial.second,
        second=trial.first,
        first_speed=trial.second_speed,
        second_speed=trial.first_speed,
    )
