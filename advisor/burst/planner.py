"""A burst plan for a layer table: the fastest within a limit on GPU-time, or the cheapest within one on time.
Pure.

Without overlap the plan is the optimum of the space that is searched (each layer on the first g GPUs of its
group, branches in turn or at once), and so it is for a chain with overlap. With overlap and branches it is
the best of several searches in which a part of each sum of gradients counts; the bound beside it says how far
it may be off.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from advisor.burst import overlap
from advisor.burst.cost import Setting, share
from advisor.burst.elements import builder
from advisor.burst.evaluate import evaluate, held_bytes, uniform, walked
from advisor.burst.labels import GPU_TIME, MEMORY, TIME, Chosen
from advisor.burst.search import Infeasible, Row
from analytics import text
from fallow.burst.plan import Placement, Plan, Predicted
from fallow.burst.table import BadTable, Layer, LayerTable

WORTH_IT = 0.05
"""Bursts are offered where they gain more than this over one number of GPUs for all layers: less is within
what a prediction is off by, and they cost the training three changed lines."""

SUM_WEIGHTS = (0.0, 0.25, 0.5, 1.0)
"""How much of each sum of gradients counts in the searches that stand in for overlap."""


class NoPlan(ValueError):
    """What was asked cannot be reached; the message says what the least is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """``amplification``: GPU-time at most this many times that of one GPU; the least time is sought.
    ``slowdown``: time at most ``1 + slowdown`` times the least there is; the least GPU-time is sought.
    Neither: the least time."""

    amplification: float | None = None
    slowdown: float | None = None

    def __post_init__(self) -> None:
        if self.amplification is not None and self.slowdown is not None:
            raise NoPlan(
                "a plan is sought under a limit on GPU-time (amplification) or on time (slowdown), not both"
            )
        if self.amplification is not None and not self.amplification >= 1:
            raise NoPlan("an amplification is 1 or more: one GPU alone has 1")
        if self.slowdown is not None and not self.slowdown >= 0:
            raise NoPlan("a slowdown is 0 or more: 0.1 is a tenth above the least time")


def plan(table: LayerTable, setting: Setting, request: Asked) -> Plan:
    """The plan, with the best uniform number of GPUs and a proven bound beside it. Raises: NoPlan,
    BadTable.
    """
    if setting.batch > table.largest_batch:
        raise BadTable(
            f"{table.model!r} was measured at up to {table.largest_batch} samples, and one GPU would have "
            f"{setting.batch}: profile it at that batch too, or plan for a smaller global batch"
        )
    if setting.batch < table.smallest_batch:
        raise BadTable(
            f"{table.model!r} was measured from {table.smallest_batch} samples on, and the global batch is "
            f"{setting.batch}: profile it at smaller batches"
        )
    planner = _Planner(table, setting)
    return planner.plan(request)


@dataclass(frozen=True, slots=True)
class _Candidate:
    predicted: Predicted
    chosen: tuple[Chosen, ...]


class _Planner:
    def __init__(self, table: LayerTable, setting: Setting) -> None:
        self._table, self._setting = table, setting
        self._builder = builder(setting, 0.0 if setting.overlap else 1.0, table.smallest_batch)
        self._states = self._builder.states_within(setting.gpus)
        self._rows: dict[float, Row] = {}
        self._chain = all(isinstance(node, Layer) for node in table.layers)

    def plan(self, request: Asked) -> Plan:
        """The plan for what was asked."""
        one = self._evaluated(uniform(self._table, 1)).predicted
        limits, aim = [float("inf"), float("inf")], TIME
        if request.amplification is not None:
            limits[GPU_TIME] = request.amplification * one.gpu_time_us
        if request.slowdown is not None:
            fastest, _ = self._best(TIME, limits)
            limits[TIME], aim = fastest.predicted.time_us * (1 + request.slowdown), GPU_TIME
        result, bound = self._best(aim, limits)
        plain = self._best_uniform(aim, limits)
        return Plan(
            model=self._table.model,
            gpus=self._setting.gpus,
            global_batch=self._setting.batch,
            network=self._setting.network.name,
            overlap=self._setting.overlap,
            placements=tuple(Placement(each.layer, each.first_rank, each.gpus) for each in result.chosen),
            predicted=result.predicted,
            busy_us=walked(self._table, result.chosen, self._setting)[1],
            aim="time" if aim == TIME else "gpu-time",
            bound=bound,
            one_gpu=one,
            uniform_gpus=max(each.gpus for each in plain.chosen),
            uniform=plain.predicted,
            verdict=self._verdict(result, plain, aim),
        )

    def _verdict(self, candidate: _Candidate, plain: _Candidate, aim: int) -> str:
        """Bursts, if they gain enough: in what was asked, in time at the GPU-time of the uniform plan, or the
        reverse.
        """
        margin = 1 - _costs(candidate)[aim] / _costs(plain)[aim]
        if margin > WORTH_IT:
            return "bursts"
        faster, _ = self._best(TIME, [float("inf"), plain.predicted.gpu_time_us])
        cheaper, _ = self._best(GPU_TIME, [plain.predicted.time_us, float("inf")])
        gains = (
            1 - faster.predicted.time_us / plain.predicted.time_us,
            1 - cheaper.predicted.gpu_time_us / plain.predicted.gpu_time_us,
        )
        return "bursts" if max(gains) > WORTH_IT else "uniform"

    def _best_uniform(self, aim: int, limits: Sequence[float]) -> _Candidate:
        """The best number of GPUs for all layers alike within the limits; the nearest to them if none is."""
        tried = [self._evaluated(uniform(self._table, gpus)) for gpus in self._states]
        inside = [each for each in tried if self._allowed(each, limits)]
        if inside:
            return min(inside, key=lambda each: _costs(each)[aim])
        return min(tried, key=lambda each: max(a / b for a, b in zip(_costs(each), limits, strict=True)))

    def _best(self, aim: int, limits: Sequence[float]) -> tuple[_Candidate, float]:
        """The best within the limits, and a bound of the aim that none is below."""
        bounding = {cost: limit for cost, limit in enumerate(limits) if limit < float("inf")}
        if self._setting.memory_bytes is not None:
            bounding[MEMORY] = self._setting.memory_bytes
        free = self._searched(aim, bounding)
        if not self._setting.overlap:
            return free
        best, bound = None, free[1]
        for each in self._stand_ins(aim, bounding):
            if self._allowed(each, limits) and (best is None or _costs(each)[aim] < _costs(best)[aim]):
                best = each
                if _costs(best)[aim] <= bound * (1 + 1e-9):
                    return best, bound
        if self._chain and self._setting.memory_bytes is None:
            best, bound = self._exact(aim, limits, best, bound)
        if best is None:
            raise NoPlan(self._unreachable(limits))
        return best, bound

    def _exact(
        self, aim: int, limits: Sequence[float], best: _Candidate | None, bound: float
    ) -> tuple[_Candidate | None, float]:
        """The optimum of a chain with overlap, for each number of GPUs that its widest layer may have."""
        layers = [node for node in self._table.layers if isinstance(node, Layer)]
        proved = True
        for most in range(len(self._states), 0, -1):
            result = overlap.best(
                layers,
                self._states[:most],
                self._setting,
                limits=(limits[TIME], limits[GPU_TIME]),
                aim=aim,
                best_so_far=None if best is None else _costs(best),
            )
            if result is not None:
                candidate = self._evaluated(result.chosen)
                proved = proved and result.proved
                if best is None or _costs(candidate)[aim] < _costs(best)[aim]:
                    best = candidate
        return best, _costs(best)[aim] if best is not None and proved else bound

    def _searched(self, aim: int, limits: dict[int, float]) -> tuple[_Candidate, float]:
        try:
            best = self._row(self._builder.sum_weight).best(aim, limits)
        except Infeasible as error:
            raise NoPlan(self._unreachable([limits.get(TIME), limits.get(GPU_TIME)])) from error
        return self._evaluated(best.chosen), best.bound

    def _stand_ins(self, aim: int, limits: dict[int, float]) -> Iterator[_Candidate]:
        """Plans in which a part of each sum counts, and the uniform ones."""
        for weight in SUM_WEIGHTS:
            try:
                yield self._evaluated(self._row(weight).best(aim, limits).chosen)
            except Infeasible:
                continue
        for gpus in self._states:
            yield self._evaluated(uniform(self._table, gpus))

    def _row(self, weight: float) -> Row:
        if weight not in self._rows:
            builder = replace(self._builder, sum_weight=weight)
            self._rows[weight] = Row(builder.elements(self._table.layers, self._setting.gpus))
        return self._rows[weight]

    def _evaluated(self, chosen: Sequence[Chosen]) -> _Candidate:
        return _Candidate(evaluate(self._table, chosen, self._setting), tuple(chosen))

    def _allowed(self, each: _Candidate, limits: Sequence[float]) -> bool:
        limit_bytes = self._setting.memory_bytes
        fits = limit_bytes is None or held_bytes(self._table, each.chosen, self._setting) <= limit_bytes
        return fits and all(
            cost <= limit * (1 + 1e-9) for cost, limit in zip(_costs(each), limits, strict=True)
        )

    def _unreachable(self, limits: Sequence[float | None]) -> str:
        limit_bytes = self._setting.memory_bytes
        if limit_bytes is not None:
            most = share(self._setting.batch, self._states[-1])
            return (
                f"no plan keeps to {text.size(limit_bytes)} a GPU within the other limits, also with {most} "
                f"samples on each of {self._states[-1]} GPUs: allow more memory, more GPUs or a smaller batch"
            )
        return f"no plan of {self._table.model!r} is within time and GPU-time of {limits}"


def _costs(candidate: _Candidate) -> tuple[float, float]:
    return candidate.predicted.time_us, candidate.predicted.gpu_time_us
