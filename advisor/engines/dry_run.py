"""An engine that touches nothing: it says of each step whether it could be taken, by the planner's own rules.

Steps are taken one after the other in a state of its own, so a plan that only works as a whole is tried as
a whole.
"""

from advisor.actions import Action
from advisor.outcomes import Done, Outcome, Stale
from advisor.planner.transition import Draft, StepError
from advisor.state.model import ClusterState


class DryRun:
    """Takes steps in a copy of ``state``; the world stays as it is."""

    def __init__(self, state: ClusterState) -> None:
        self._draft = Draft(state)

    def do(self, step: Action, intent: int = 0) -> Outcome:
        """``Done`` when the step may be taken after those before it, else ``Stale`` with the reason."""
        try:
            self._draft.take(step)
        except StepError as error:
            return Stale(found=str(error))
        return Done(note="dry run: nothing was touched")

    def would_be(self) -> ClusterState:
        """The state that the steps so far lead to."""
        return self._draft.state()
