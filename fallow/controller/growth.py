"""Keeps a training's size in step with its top-up jobs: what one lends is sought while it lends it."""

from typing import Any

from fallow.control_server import Answer, Waiting
from fallow.controller.controller import Controller
from fallow.top_ups.top_ups import TopUps
from fallow.workers.hosts import Hosts


class Growth:
    """``top_ups`` of the training of ``controller``, whose machines are among ``hosts``."""

    def __init__(self, controller: Controller, hosts: Hosts, top_ups: TopUps):
        self._controller, self._hosts, self._top_ups = controller, hosts, top_ups
        self._added: dict[str, int] = {}

    def ask(self, count: int) -> Answer | Waiting:
        """Have so many top-ups; answered when they compute, or have gone, or when it is known why not."""
        if count > self._top_ups.most:
            return {"error": f"top-up {count}: --top-up allows {self._top_ups.most}"}
        if self._controller.view.stopping or self._controller.view.finished:
            return {"error": "the training is coming to its end"}
        self._top_ups.ask(count)

        def done() -> Answer | None:
            view, outcome = self._controller.view, self._top_ups.outcome()
            if outcome is None or view.pending is not None:
                return None
            calm = len(view.members) == view.target or view.settled is not None or "error" in outcome
            return {**outcome, "workers": len(view.members)} if calm else None

        return done

    def look(self) -> None:
        """Once a round: seek as many workers more as the top-ups that joined take, and fewer when they go."""
        guests = self._hosts.guests()
        ours, going = self._top_ups.follow(
            {machine.offer.job: machine.offer.name for machine in guests if machine.offer.job is not None}
        )
        if going:
            self._hosts.drop(going)
        lent = {m.offer.name: m.size for m in guests if m.offer.name in ours and not m.leaving}
        before = target = self._controller.view.target
        for name in self._added.keys() - lent.keys():
            target -= self._added.pop(name)
        for name in lent.keys() - self._added.keys():
            self._added[name] = lent[name]
            target += lent[name]
        if target != before:
            self._controller.resize(target)

    def forget(self) -> None:
        """Somebody said what size they want: what was added before is part of it."""
        self._added = dict.fromkeys(self._added, 0)

    def status(self) -> dict[str, Any]:
        """How many top-ups are wanted, which there are, and why there are no more."""
        return self._top_ups.status()

    def close(self) -> None:
        """End the top-ups; blocks shortly."""
        self._top_ups.close()
