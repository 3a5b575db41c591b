"""What goes before and after every cycle of the acting loop."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from advisor.engines.dispatch import Dispatch
from service.acting.books import Records
from service.acting.memory_watching import MemoryWatchdog
from service.acting.pair_watching import SlowdownWatchdog

if TYPE_CHECKING:
    from advisor.cycle import Cycle
    from advisor.limits import Limits


def settling(books: Records, engine: Dispatch) -> "Callable[[], None]":
    """What goes before every cycle: what was open is settled, and what was told by then is noted."""

    def settle() -> None:
        for deed, how in books.settle():
            if deed.step is not None:
                engine.settled(deed.step, how.result, how.found)

    return settle


def after_cycle(
    books: Records, limits: "Limits", watching: "tuple[MemoryWatchdog | SlowdownWatchdog, ...]"
) -> "Callable[[Cycle], None]":
    """What follows every cycle: it is filed, and neighbours are seen to: their memory, and their speed."""

    def follow(cycle: "Cycle") -> None:
        books.file(cycle, limits)
        for each in watching:
            each.after(cycle)

    return follow
