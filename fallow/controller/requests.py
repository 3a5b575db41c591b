"""What can be asked of a running training: another size, other devices, its state, its caches, its end.

A request is a few words, and its answer a mapping: at once, or, for what takes until a step boundary or
longer, when it is done. Nothing here decides about membership.
"""

import json
import re
from collections.abc import Sequence

from fallow import protocol
from fallow.control_server import Answer, Waiting, quoted
from fallow.controller.controller import Controller
from fallow.controller.growth import Growth
from fallow.controller.status import Tally
from fallow.protocol import MemberId
from fallow.workers.hosts import Hosts

REQUESTS = (
    "resize N [without MACHINE[,MACHINE...]], top-up N, devices NAME[,NAME...], status, release WORKER, "
    "release-caches, suspend or stop"
)
SLOW = frozenset({"devices", "release-caches", "suspend", "top-up"})
"""Requests that are answered when they are done."""
SIZE = re.compile("0*[1-9][0-9]{0,8}")
"""A number of workers, as a request spells it: ``isdigit`` would let through what ``int`` cannot read."""
COUNT = re.compile("[0-9]{1,4}")
"""A number of top-up jobs, none included."""


class Steering:
    """Answers requests to one training that has ``minimum`` to ``maximum`` workers.

    ``suspended`` is true once it was saved because somebody asked it to be suspended. ``growth`` brings its
    top-up jobs, where it may have some.
    """

    def __init__(self, controller: Controller, hosts: Hosts, minimum: int, maximum: int):
        self.growth: Growth | None = None
        self._controller, self._hosts = controller, hosts
        self._minimum, self._maximum = minimum, maximum
        self._tally = Tally()
        self._wishes = 0
        self._orders, self._ordering = 0, False
        self._failed: str | None = None
        self.suspended = False

    def answer(self, words: Sequence[str]) -> Answer | Waiting:
        """What is answered, or what will know."""
        controller = self._controller
        match words:
            case ["resize", number] if SIZE.fullmatch(number):
                return {"target": self._resize(int(number))}
            case ["top-up", number] if COUNT.fullmatch(number):
                if self.growth is None:
                    return {"error": "this training may have no top-up jobs: start it with --top-up N"}
                return self.growth.ask(int(number))
            case ["resize", number, "without", names] if SIZE.fullmatch(number):
                return self._resize_without(int(number), frozenset(names.split(",")))
            case ["devices", names]:
                return self._assign(tuple(name for name in names.split(",") if name))
            case ["status"]:
                report = self._tally.status(controller, self._hosts)
                return report | {"top_ups": None if self.growth is None else self.growth.status()}
            case ["release", member] if member in controller.view.workers:
                controller.release(MemberId(member))
                return {"releasing": member}
            case ["release-caches"]:
                return self._release_caches()
            case ["suspend"]:
                return self._suspend()
            case ["stop"]:
                controller.ask_to_stop("stopped on request")
                return {"stopping": True}
            case _:
                return {"error": f"unknown request {quoted(words)}: {REQUESTS}"}

    def look(self) -> None:
        """Once a round: note what workers report; devices that came to nothing are given up."""
        self._tally.look(self._controller)
        if self.growth is not None:
            self.growth.look()
        if not self._ordering:
            return
        view = self._controller.view
        if view.settled is not None:
            self._failed, self._ordering = view.settled, False
            sitting = [seat.device for seat in self._hosts.seating() if seat.member in view.members]
            self._hosts.assign(sitting)
        elif self._is_in_order():
            self._ordering = False

    def _resize(self, workers: int) -> int:
        if self.growth is not None:
            self.growth.forget()
        return self._controller.resize(workers)

    def _resize_without(self, workers: int, names: frozenset[str]) -> Answer:
        """Another size, and these machines leave: who is there goes at the next step boundary."""
        joined = sorted(machine.offer.name for machine in self._hosts.guests())
        unknown = sorted(names - set(joined))
        if unknown:
            there = f"there are {', '.join(joined)}" if joined else "no other machine has joined"
            return {"error": f"no machine {', '.join(unknown)} has joined; {there}"}
        self._hosts.drop(names)
        return {"target": self._resize(workers), "leaving": sorted(names)}

    # -- devices ----------------------------------------------------------------------------------------

    def _assign(self, names: tuple[str, ...]) -> Answer | Waiting:
        elsewhere = self._hosts.elsewhere()
        refusal = self._refusal(names, len(names) + elsewhere)
        if refusal is not None:
            return {"error": refusal}
        going = self._hosts.assign(names)
        self._controller.reseat(going, len(names) + elsewhere)
        self._orders, self._ordering, self._failed = self._orders + 1, True, None
        number = self._orders
        return lambda: self._assigned(number)

    def _refusal(self, names: tuple[str, ...], size: int) -> str | None:
        names_text = ",".join(names)
        if not self._hosts.seating():
            return "this training was started without devices: start it with --devices"
        if len(set(names)) < len(names):
            return f"devices {names_text}: one is named twice, and each takes one worker"
        if not self._minimum <= size <= self._maximum:
            bounds = f"--min {self._minimum} --max {self._maximum}"
            return f"devices {names_text}: {size} workers lie outside {bounds}"
        if self._controller.view.stopping or self._controller.view.finished:
            return "the training is coming to its end"
        return None

    def _assigned(self, number: int) -> Answer | None:
        """How the order went, once the devices that go are free and the others have their workers."""
        view, seating = self._controller.view, self._hosts.seating()
        same = [seat.device for seat in seating if seat.kept]
        if number != self._orders:
            return {"error": "another order of devices has come since", "devices": same}
        if view.stopping or view.finished:
            return {"error": "the training is coming to its end", "devices": same}
        if self._failed is not None and all(seat.kept for seat in seating):
            return {"error": f"the training stays on {','.join(same)}: {self._failed}", "devices": same}
        return {"devices": same, "workers": len(view.members)} if self._is_in_order() else None

    def _is_in_order(self) -> bool:
        """Whether no process is left on a device that goes, and as many compute as were asked for."""
        view = self._controller.view
        calm = view.pending is None and view.settled is None and len(view.members) == view.target
        return calm and all(seat.kept for seat in self._hosts.seating())

    # -- wishes -----------------------------------------------------------------------------------------

    def _release_caches(self) -> Answer | Waiting:
        members = self._controller.view.members
        number = self._wish(protocol.RELEASE_CACHES)

        def released() -> Answer | None:
            grants = self._granted(number, members)
            there = [member for member in members if member in self._controller.view.members]
            return {"workers": grants} if all(member in grants for member in there) else None

        return released

    def _suspend(self) -> Answer | Waiting:
        """Save first, and stop only when that is done: what could not be saved goes on."""
        view = self._controller.view
        if view.stopping or not view.generation:
            self._controller.ask_to_stop("suspended on request")
            return {"stopping": True, "saved_bytes": None}
        numbers: dict[MemberId, int] = {}

        def saved() -> Answer | None:
            view = self._controller.view
            if view.finished or not view.members:
                return {"error": "the training is coming to its end"}
            saver = view.members[0]
            if saver not in numbers:
                numbers[saver] = self._wish(protocol.SAVE)
            grants = [
                t for member, number in numbers.items() for t in self._granted(number, (member,)).values()
            ]
            if not grants:
                return None
            if "error" in grants[-1]:
                return grants[-1]
            self.suspended = True
            self._controller.ask_to_stop("suspended on request")
            return {"stopping": True, "saved_bytes": grants[-1]["bytes"]}

        return saved

    def _wish(self, wish: str) -> int:
        self._wishes += 1
        box = self._controller.box
        box.set(protocol.wish_key(self._wishes), wish)
        box.set(protocol.WISHES, str(self._wishes))
        return self._wishes

    def _granted(self, number: int, members: Sequence[MemberId]) -> dict[str, Answer]:
        box = self._controller.box
        grants = {member: box.get(protocol.granted_key(number, member)) for member in members}
        return {member: json.loads(answer) for member, answer in grants.items() if answer is not None}
