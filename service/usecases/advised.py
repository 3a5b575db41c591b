"""What is advised about the live cluster, and what the past would have brought, as plain rows.

Reading only, as ``fallow advise``, ``plan`` and ``whatif`` do: it asks named queries through a client, and
the decision itself is the advisor's. The rules are those of the configuration beside the store; where the
store is another machine's, the defaults, and ``Advised.rules_from`` says so.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from analytics.thresholds import IDLE_RATIO
from service.errors import BadParameter, NoData
from service.schemas.advice import AbstainRow, AdviceRow, ChargedRow, EarnedRow, GivenRow
from service.schemas.control import Refused
from service.summaries.savings import Savings, judged

if TYPE_CHECKING:
    from advisor.planner.limits import PlannerConfig
    from advisor.whatif.estimate import Given
    from service.client.queries import Client
    from service.config.file import Effective

DEFAULTS = "the defaults: the configuration of another machine is not known here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advised:
    """All that was said of one snapshot: rows as ``service.usecases.advice_rows`` makes them.

    ``lines`` are the thresholds that charts of evidence draw: name to ratio or bytes. ``modes`` maps a class
    of action to its mode.
    """

    as_of: datetime
    rules_from: str
    advice: tuple[AdviceRow, ...] = ()
    abstained: tuple[AbstainRow, ...] = ()
    refused: tuple[Refused, ...] = ()
    lines: dict[str, float] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A number that advice turns on: its value in force, its default and its bounds."""

    name: str
    value: float
    default: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What each class of action would have given back over a window; rows as ``fallow whatif`` prints.

    ``bare`` are the classes that have no row because no submitted job told of them.
    """

    given: tuple[GivenRow, ...]
    bare: tuple[str, ...]
    earned: EarnedRow
    jobs: int
    held_gpu_hours: float
    currency: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """One value of the configuration and where it came from: ``default`` or ``fallow.toml:12``."""

    key: str
    value: object
    origin: str


def advised(client: "Client") -> Advised:
    """Ask every policy, plan, and ask the guard. Blocks. Raises ``ClientError``."""
    from advisor.planner.plan import Advice
    from service.usecases.advice import CannotAdvise, consult, newest
    from service.usecases.advice_rows import abstain_row, advice_row, refusal

    in_force = effective(client)
    try:
        as_of = newest(client)
        desk = consult(client, in_force.config)
    except CannotAdvise as error:
        raise NoData(str(error)) from error
    answers = desk.said.answers
    return Advised(
        as_of=as_of,
        rules_from=_origin(client),
        advice=tuple(advice_row(each, desk.currency) for each in answers if isinstance(each, Advice)),
        abstained=tuple(abstain_row(each) for each in answers if not isinstance(each, Advice)),
        refused=tuple(refusal(each) for each in (*desk.said.plan.refused, *desk.ruling.refused)),
        lines=_lines(in_force),
        modes={action.value: mode.value for action, mode in desk.limits.modes.items()},
    )


def rules(client: "Client") -> tuple[Rule, ...]:
    """The numbers of ``[advice]``, with what holds now. Reads the configuration file."""
    from dataclasses import fields

    in_force = effective(client).config.advice
    return tuple(
        Rule(
            name=item.name,
            value=getattr(in_force, item.name),
            default=float(str(item.default)),
            low=item.metadata["low"],
            high=item.metadata["high"],
        )
        for item in fields(in_force)
    )


def replayed(
    client: "Client", start: datetime, end: datetime, changed: dict[str, float], *, consented: bool = False
) -> Replayed:
    """The recorded window under rules of which some are ``changed``. Blocks. Raises ``ClientError``.

    ``consented``: only the jobs of those who allow it may be touched, as the configuration says.
    """
    from advisor.whatif.replay import consented as only_theirs
    from advisor.whatif.replay import everybody, what_if
    from service.usecases.advice import limits_of, recorded_past

    config = effective(client).config
    past = recorded_past(client, start, end, config)
    what_if_result = what_if(
        past,
        _changed(config.advice, changed),
        limits_of(config),
        only_theirs if consented else everybody,
    )
    return Replayed(
        given=tuple(_row(each) for each in what_if_result.shown),
        bare=what_if_result.bare,
        earned=EarnedRow(
            cases=what_if_result.earned.cases,
            median_error=what_if_result.earned.median_error,
            total_error=what_if_result.earned.total_error,
        ),
        jobs=len(past.jobs),
        held_gpu_hours=sum(each.use.held_gpu_hours for each in past.jobs),
        currency=next((price.currency for price in past.prices.values()), None),
    )


def charged(client: "Client", as_of: datetime) -> tuple[ChargedRow, ...]:
    """Whom charging held-idle hours would move; rows as ``fallow whatif --charging`` prints. Blocks.

    Raises ``ClientError``.
    """
    from service.usecases.advice import charged_now

    return tuple(
        ChargedRow(
            project=each.project,
            allocated_ratio=each.allocated_ratio,
            held_idle_ratio=each.held_idle_ratio,
            part=each.part,
            part_charged=each.part_charged,
        )
        for each in charged_now(client, effective(client).config, as_of)
    )


def _row(entry: "Given") -> GivenRow:
    """A row of the table: of what its bar was earned by, how many cases there were."""
    return GivenRow(
        action=entry.action,
        how=entry.how,
        gpu_hours=entry.gpu_hours,
        jobs=entry.jobs,
        times=entry.times,
        disturbed=entry.disturbed,
        low=entry.low,
        high=entry.high,
        money=entry.money,
        cases=entry.earned.cases,
    )


def given_back(client: "Client", start: datetime, end: datetime) -> Savings:
    """What actions did give back within whole minutes, from the ledger. Blocks. Raises ``ClientError``."""
    rows = client.rows("given_back", from_ts=start, to_ts=end)
    return judged(rows, effective(client).config.findings.coverage_ratio)


def settings(client: "Client") -> tuple[SettingRow, ...] | None:
    """The configuration in force and its origins; ``None`` where the store is another machine's.

    Receivers' addresses are told as everybody may see them: who reads a page may not read the file.
    """
    if client.data is None:
        return None
    return tuple(
        SettingRow(
            key=each.key, value=_plain(each.value) if _may_hold(each.key) else each.value, origin=each.origin
        )
        for each in effective(client).settings
    )


def run_pages(client: "Client") -> dict[str, str]:
    """Where this site's trackers have their pages, as it is configured. Reads the configuration file."""
    return dict(effective(client).config.dashboard.run_pages)


def effective(client: "Client") -> "Effective":
    """Raises ``BadParameter`` where the file cannot be used."""
    from service.config.file import FILE_NAME, load
    from service.config.model import ConfigError

    try:
        return load(None if client.data is None else client.data / FILE_NAME, {})
    except ConfigError as error:
        raise BadParameter(str(error)) from error


def _origin(client: "Client") -> str:
    from service.config.file import FILE_NAME

    if client.data is None:
        return DEFAULTS
    return FILE_NAME if (client.data / FILE_NAME).exists() else "the defaults"


def _changed(in_force: "PlannerConfig", changed: dict[str, float]) -> "PlannerConfig":
    kinds = {name: type(getattr(in_force, name)) for name in changed}
    try:
        return replace(in_force, **{name: kinds[name](value) for name, value in changed.items()})
    except (ValueError, TypeError) as error:
        raise BadParameter(f"these rules cannot be replayed: {error}") from error


def _lines(effective: "Effective") -> dict[str, float]:
    findings, advice = effective.config.findings, effective.config.advice
    return {
        "idle_ratio": IDLE_RATIO,
        "hog_memory_ratio": findings.hog_memory_ratio,
        "hog_utilization_ratio": findings.hog_utilization_ratio,
        "pack_p95": advice.pack_p95,
        "fit_p95": advice.fit_p95,
        "fit_memory": advice.fit_memory,
    }


def _may_hold(key: str) -> bool:
    """Whether a setting may hold an address, and a secret in it."""
    return key.startswith(("delivery.", "reports.")) or key == "alerts.to"


def _plain(value: object) -> object:
    from service.notify.message import harmless

    match value:
        case str() if "://" in value:
            return harmless(value)
        case tuple() | list():
            return tuple(_plain(each) for each in value)
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case _:
            return value
