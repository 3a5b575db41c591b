"""The engines that this service acts with, the narrowest first: a new one is a row before ``external``."""

from collections.abc import Callable, Mapping

from advisor.actions import Pause, Resume
from advisor.engines.brief import Brief
from advisor.engines.capabilities import Capabilities
from advisor.engines.external import ExternalEngine, beyond
from advisor.engines.hooks import HookEngine, Running
from advisor.engines.kubernetes import CANNOT as NEVER_TO_PODS
from advisor.engines.kubernetes import NAME as KUBERNETES
from advisor.engines.kubernetes import KubernetesEngine
from advisor.engines.launched import LocalEngine, SentCommand
from advisor.engines.memory_transfers import Moving
from advisor.engines.router import EngineEntry
from advisor.engines.slurm import CANNOT, NAME, SlurmEngine, is_slurms
from advisor.engines.watched import Watched
from advisor.outcomes import Stale
from advisor.state.model import is_submitted
from collector.model import JobId
from service.schemas.answer import Row, to_row
from service.schemas.control import Engine

UNRUN = "Fallow stopped before it ran its hook"
UNASKED = "Fallow stopped before it asked the manager for it"
CAPABILITIES: Mapping[str, Capabilities] = {
    "launched": Capabilities(jobs="jobs of `fallow run`", chooser="Fallow"),
    "hook": Capabilities(
        jobs="jobs of a place that a hook names", chooser="their manager", cannot=beyond("it")
    ),
    "slurm": Capabilities(jobs="Slurm's jobs", chooser=NAME, cannot=CANNOT),
    "kubernetes": Capabilities(
        jobs="Kubernetes' Jobs (foreign.kubernetes)", chooser=KUBERNETES, cannot=NEVER_TO_PODS
    ),
    "external": Capabilities(
        jobs="jobs that nobody launched through Fallow", chooser=None, cannot=beyond("it")
    ),
}
"""What is done at all, by an engine's name; ``docs/act.md`` says it of one job at a time."""


def engine_rows() -> list[Row]:
    """The engines as the API answers them: what each does to jobs of its kind, and never, with reasons."""
    return [
        to_row(
            Engine(
                name=name,
                jobs=each.jobs,
                chooser=each.chooser,
                can=tuple(verb for verb, why in each.can().items() if why is None),
                cannot={verb: why for verb, why in each.can().items() if why is not None},
            )
        )
        for name, each in CAPABILITIES.items()
    ]


def engines(
    launched: LocalEngine,
    hooks: HookEngine,
    slurm: SlurmEngine,
    kubernetes: KubernetesEngine,
    external: ExternalEngine,
    *,
    hooked: Callable[[JobId], bool],
) -> tuple[EngineEntry, ...]:
    """Whose jobs each has, and what it can do; the first that takes a step does it."""
    return (
        EngineEntry(
            name="launched",
            owns=is_submitted,
            engine=launched,
            brief=Brief[SentCommand](launched),
            preview=launched.preview,
            found=lambda job, _, intent: launched.found(job, intent),
            tells=True,
            by_launcher=True,
            capabilities=CAPABILITIES["launched"],
        ),
        EngineEntry(
            name="hook",
            owns=hooked,
            engine=hooks,
            brief=Brief[Running](hooks),
            does=frozenset({Pause, Resume}),
            preview=hooks.preview,
            found=lambda job, step, intent: hooks.found(intent) or Stale(found=UNRUN),
            capabilities=CAPABILITIES["hook"],
        ),
        EngineEntry(
            name="slurm",
            owns=is_slurms,
            engine=slurm,
            brief=Brief[Watched](slurm),
            does=frozenset({Pause, Resume}),
            found=lambda job, step, intent: slurm.found(intent) or Stale(found=UNASKED),
            capabilities=CAPABILITIES["slurm"],
        ),
        EngineEntry(
            name="kubernetes",
            owns=kubernetes.has,
            engine=kubernetes,
            brief=Brief[Watched](kubernetes),
            does=frozenset({Pause, Resume}),
            found=lambda job, step, intent: kubernetes.found(intent) or Stale(found=UNASKED),
            capabilities=CAPABILITIES["kubernetes"],
        ),
        EngineEntry(
            name="external",
            owns=lambda _: True,
            engine=external,
            brief=Brief[Moving](external),
            preview=external.preview,
            found=lambda job, step, intent: None if step is None else external.settle(step),
            capabilities=CAPABILITIES["external"],
        ),
    )
