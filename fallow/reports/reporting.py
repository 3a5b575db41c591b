"""What this worker tells its scheduler: what the library measured, and what the script knows better."""

import re
from collections.abc import Callable, Mapping

from fallow.mistakes import Mistake

Measurements = Mapping[str, float | int | None]
Send = Callable[[Measurements], None]

EVERY_S = 1.0
NAME = re.compile(r"[a-z][a-z0-9_]*")


class Reporter:
    """Sends measurements through ``send``; without one nothing is sent and nothing is kept.

    What the script told stays in every later report, and wins over what the library measured.
    """

    def __init__(self, send: Send | None):
        self._send = send
        self._told: dict[str, float | int | None] = {}
        self._measured: Measurements = {}
        self._sent_s = float("-inf")

    def tell(self, measurements: Measurements) -> None:
        """The script's own figures, sent at once. Raises Mistake for what is no figure."""
        for name, value in measurements.items():
            if not NAME.fullmatch(name):
                raise Mistake(
                    f"job.report({name}=...): name measurements in small letters with units, step_time_s"
                )
            if value is not None and not isinstance(value, int | float):
                raise Mistake(
                    f"job.report({name}={value!r}): a measurement is a number, or None for not measured; "
                    "use .item() on a tensor"
                )
        if self._send is not None:
            self._told.update(measurements)
            self._send({**self._measured, **self._told})

    def measured(self, now_s: float, measure: Callable[[], Measurements]) -> None:
        """The library's figures, measured and sent at most once in EVERY_S."""
        if self._send is not None and now_s - self._sent_s >= EVERY_S:
            self._sent_s = now_s
            self._measured = measure()
            self._send({**self._measured, **self._told})
