"""One decision in the making: the snapshot, what is left of it, and the steps and refusals so far.

Private to one ``decide``, mutable, thrown away with it. It keeps the books of a plan and judges nobody: who
comes first and who gives way is decided in ``advisor.policies``.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from advisor.actions import Action, HoldForJob, Move, Pause, Requeue, Resize, Resume, Start
from advisor.planner.fair_share import Shares, fair_shares
from advisor.planner.limits import Limits
from advisor.planner.placement import Board, share_on
from advisor.planner.plan import Outlook, Plan, Refusal, Rule
from advisor.planner.protection import disturbed_lately
from advisor.planner.quota import allocated, upward
from advisor.planner.targets import left_to
from advisor.planner.transition import SHARE_SLACK
from advisor.state.model import ActionClass, ClusterState, Job, Phase, Placement, ProjectName, held_gpus
from collector.model import GpuUuid, JobId

NOTHING: Mapping[ProjectName, float] = MappingProxyType({})


class WorkingState:
    """What is known, and what was decided so far. ``given`` counts GPUs by subtree of the project tree."""

    def __init__(self, state: ClusterState, limits: Limits) -> None:
        self.state, self.limits, self.now_ms = state, limits, state.as_of_ms
        self.shares: Shares = fair_shares(state, limits)
        self.tree = self.shares.tree
        self.fair = self.shares.fair_gpus
        self.given = upward(self.tree, allocated(state))
        self.board = Board(state)
        self.placements = dict(state.placements)
        self.steps: list[Action | None] = []
        self.refused: list[Refusal] = []
        self.new: dict[JobId, int] = {}
        self.resized: dict[JobId, int] = {}
        self.disturbed = disturbed_lately(state)
        self.moves = 0
        """How often GPUs have changed hands; nobody's turn changes without."""
        self._waiting = sum(1 for job in state.jobs.values() if job.phase is not Phase.RUNNING)

    def entitled(self, job: Job, size_gpus: float, freed: Mapping[ProjectName, float] = NOTHING) -> int:
        """On how many levels of the tree, from its project upwards, that much more is deserved; 0 is none.

        ``freed`` is what others give up for it, in GPUs by subtree: it counts as returned already.
        """
        levels = 0
        for name in self.tree.paths[job.project]:
            if self.given[name] - freed.get(name, 0.0) + size_gpus > self.fair[name] + SHARE_SLACK:
                break
            levels += 1
        return levels

    def guaranteed(
        self, job: Job, size_gpus: float, freed: Mapping[ProjectName, float] = NOTHING
    ) -> int | None:
        """How many levels of the tree, from its project up, it takes for a quota to cover that much more.

        ``None`` when no quota does. Against whoever is further away it is guaranteed (``Cover.gpus``).
        """
        for at, name in enumerate(self.tree.paths[job.project]):
            after = self.given[name] - freed.get(name, 0.0) + size_gpus
            if after <= self.tree.quotas[name] + SHARE_SLACK:
                return at + 1
        return None

    def over_limit(
        self, job: Job, size_gpus: float, freed: Mapping[ProjectName, float] = NOTHING
    ) -> ProjectName | None:
        """The project whose limit that much more would exceed, ``freed`` returned; ``None`` if none does."""
        for name in self.tree.paths[job.project]:
            limit = self.tree.projects[name].limit_gpus
            after = self.given[name] - freed.get(name, 0.0) + size_gpus
            if limit is not None and after > limit + SHARE_SLACK:
                return name
        return None

    def start(self, job: Job, gpus: tuple[GpuUuid, ...], reason: str) -> None:
        """Start or resume a waiting job there."""
        share = share_on(job, gpus, self.state.gpus)
        self._enter(job, Placement(gpus=gpus, share=share))
        self.new[job.id] = len(self.steps)
        self._waiting -= 1
        self.board.fulfil(job.id)
        if job.phase is Phase.PAUSED:
            own = None if share == job.share else share
            back = Resume(job=job.id, gpus=gpus, share=own, reason=reason)
            self.steps.append(left_to(job.manager, back))
        else:
            self.steps.append(Start(job=job.id, gpus=gpus, share=share, reason=reason))

    def resize(self, job: Job, gpus: tuple[GpuUuid, ...], reason: str, for_job: JobId | None = None) -> None:
        """Give a running job this set of GPUs.

        What this plan starts is started on them at once, as its last step: only then are they all free. What
        it shrinks is shrunk once, as early as before, and says how much of that is for whom. So nobody who
        shrank may grow again.
        """
        freed = len(self.placements[job.id].gpus) - len(gpus)
        self._leave(job)
        self._enter(job, Placement(gpus=gpus, share=job.share))
        start, shrink = self.new.get(job.id), self.resized.get(job.id)
        if start is not None:
            before = self.steps[start]
            assert isinstance(before, Start)
            self.steps[start] = None
            self.new[job.id] = len(self.steps)
            self.steps.append(replace(before, gpus=gpus, reason=f"{before.reason}; {reason}"))
        elif shrink is not None:
            earlier = self.steps[shrink]
            assert isinstance(earlier, Resize) and set(gpus) <= set(earlier.gpus)
            if earlier.for_job is None:  # it grew in this plan, and gives that up to who comes after all
                earlier = replace(earlier, for_job=for_job)
            more = () if for_job is None or for_job == earlier.for_job else ((for_job, freed),)
            self.steps[shrink] = replace(
                earlier,
                gpus=gpus,
                also_for=(*earlier.also_for, *more),
                reason=f"{earlier.reason}; {reason}",
            )
        else:
            self.resized[job.id] = len(self.steps)
            self.steps.append(Resize(job=job.id, gpus=gpus, for_job=for_job, reason=reason))

    def give_way(self, step: Pause | Requeue) -> None:
        """Take a running job off its GPUs."""
        self._leave(self.state.jobs[step.job])
        del self.placements[step.job]
        self.disturbed += 1
        self._waiting += 1
        self.steps.append(step)

    def move(self, step: Move) -> None:
        """Have a running job go on elsewhere."""
        job = self.state.jobs[step.job]
        share = self.placements[step.job].share if step.share is None else step.share
        self._leave(job)
        self._enter(job, Placement(gpus=step.gpus, share=share))
        self.disturbed += 1
        self.steps.append(step)

    def promise(self, step: HoldForJob) -> None:
        """Hold these GPUs back for the head of a queue; none: no longer any."""
        if step.gpus:
            self.board.promise(step.job, step.start_ms, step.gpus)
        else:
            self.board.fulfil(step.job)
        self.steps.append(step)

    def refuse(
        self,
        job: Job,
        rule: Rule,
        reason: str,
        would_change: str = "",
        action: ActionClass = ActionClass.SCHEDULE,
    ) -> None:
        """Say why the job goes on waiting, or what else is not done for it."""
        self.refused.append(
            Refusal(
                job=job.id,
                action=action,
                rule=rule,
                reason=reason,
                would_change=would_change,
            )
        )

    def plan(self) -> Plan:
        """What was decided, without what advice brought."""
        outlook = Outlook(
            free_gpus=self.board.all_free_gpus,
            running=len(self.placements),
            waiting=self._waiting,
            allocated_gpus={name: gpus for name, gpus in self.given.items() if gpus > SHARE_SLACK},
        )
        return Plan(
            as_of_ms=self.now_ms,
            steps=tuple(step for step in self.steps if step is not None),
            refused=tuple(self.refused),
            fair_gpus=dict(self.fair),
            outlook=outlook,
        )

    def _enter(self, job: Job, placement: Placement) -> None:
        self.board.occupy(job, placement)
        self.placements[job.id] = placement
        self._count(job, held_gpus(placement, self.state.gpus))

    def _leave(self, job: Job) -> None:
        placement = self.placements[job.id]
        self.board.vacate(job.id, placement)
        self._count(job, -held_gpus(placement, self.state.gpus))

    def _count(self, job: Job, gpus: float) -> None:
        self.moves += 1
        for name in self.tree.paths[job.project]:
            self.given[name] += gpus
