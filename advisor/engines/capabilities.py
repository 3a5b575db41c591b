"""What an engine can do to jobs of its kind at all, verb by verb, and what it can't with the reason. Pure.

An engine declares it once, in its row; people read it in ``fallow doctor`` and at ``/v1/engines``. What can't
be done to one job as it is now is another matter: that is joined to each look (``Job.cannot``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args

from advisor.actions import Action
from advisor.tags import verb_of_kind

VERBS: tuple[str, ...] = tuple(verb_of_kind(kind) for kind in get_args(Action))
"""Every verb that a step can have, in the order of ``Action``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """``jobs``: whose these are, for people. ``cannot`` has the verbs that are never done to them, each with
    the reason. ``chooser`` is who chooses a job's GPUs: Fallow, or the name of what does; ``None``: nobody,
    it keeps those that it has.
    """

    jobs: str
    chooser: str | None
    cannot: Mapping[str, str] = field(default_factory=dict)

    def can(self) -> dict[str, str | None]:
        """Each verb with the reason against it, ``None`` where it can be done."""
        return {verb: self.cannot.get(verb) for verb in VERBS}
