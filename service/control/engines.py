"""The engines that this service acts with, the narrowest first: a new one is a row before ``external``."""

from advisor.actions import Pause, Resume
from advisor.engines.brief import Brief
from advisor.engines.external import ExternalEngine
from advisor.engines.launched import LocalEngine, SentCommand
from advisor.engines.memory_transfers import Moving
from advisor.engines.router import EngineEntry
from advisor.engines.slurm import SlurmEngine, Watched, is_slurms
from advisor.outcomes import Stale
from advisor.state.model import is_submitted

UNASKED = "Fallow stopped before it asked Slurm for it"


def engines(launched: LocalEngine, slurm: SlurmEngine, external: ExternalEngine) -> tuple[EngineEntry, ...]:
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
        ),
        EngineEntry(
            name="slurm",
            owns=is_slurms,
            engine=slurm,
            brief=Brief[Watched](slurm),
            does=frozenset({Pause, Resume}),
            found=lambda job, step, intent: slurm.found(intent) or Stale(found=UNASKED),
        ),
        EngineEntry(
            name="external",
            owns=lambda _: True,
            engine=external,
            brief=Brief[Moving](external),
            preview=external.preview,
            found=lambda job, step, intent: None if step is None else external.settle(step),
        ),
    )
