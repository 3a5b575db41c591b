"""How long the save at the end of a training is waited for, and what is said of one that hangs.

A save on storage that is away never ends by itself (a hard NFS mount waits for ever), and the training's GPUs
would be held until somebody looks.
"""

from collections.abc import Callable

from fallow.protocol import MemberId

SAVE_PATIENCE_S = 1800.0
"""A terabyte at 1 GB/s takes 17 minutes; what has not ended in half an hour is taken for one that hangs."""
SLOW_S = 60.0
"""A save that takes longer is said to people, who may know that the storage is away."""


class SaveWatch:
    """Follows one save: by which member and of which generation, and since when."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._save: tuple[MemberId | None, int] | None = None
        self._since_s = 0.0
        self._said = False

    def until_s(self, member: MemberId | None, generation: int, now_s: float, patience_s: float) -> float:
        """Until when the training may take: ``patience_s`` from now, but never beyond the save's own limit.

        A save by another, after the first was lost, has a limit of its own. One that takes long is told once.
        """
        if self._save != (member, generation):
            self._save, self._since_s, self._said = (member, generation), now_s, False
        if now_s - self._since_s >= SLOW_S and not self._said:
            self._said = True
            self._tell(
                f"still saving after {SLOW_S:.0f} s: is its storage away? Ended after {SAVE_PATIENCE_S:.0f} s"
            )
        return min(now_s + patience_s, self._since_s + SAVE_PATIENCE_S)

    def late(self, now_s: float) -> str:
        """What took too long, in words: the save, where one is beyond its limit, else a step."""
        is_save = self._save is not None and now_s >= self._since_s + SAVE_PATIENCE_S
        return f"{'save' if is_save else 'step'} did not end"
