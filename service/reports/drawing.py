"""Charts drawn by a process of their own, beside the one that makes the report.

The engine takes half a second to load, and keeps the interpreter to itself while it draws; the report has
other things to do meanwhile. Run as a program, this reads a request a line and answers each with one, until
its input ends. Where that process fails, for whatever reason, the chart is drawn in the caller's own.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import IO, Self

from service.charts.drawing import Drawing
from service.reports.charts import BLANK, CannotDraw, Form, drawn, spec_of

# -P: no module comes from the folder one stands in (docs/decisions/0035).
COMMAND = (sys.executable, "-P", "-m", "service.reports.drawing")
ENDS_WITHIN_S = 5.0
"""Nothing is drawn any more, but on a busy machine it may still be loading the engine; then it is killed."""


class Beside:
    """The drawing process, from ``with`` on; ``begin`` is a ``Draw``. Safe from any thread."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._turn = ThreadPoolExecutor(1, thread_name_prefix="fallow-drawing")

    def __enter__(self) -> Self:
        with suppress(OSError):
            self._process = subprocess.Popen(
                COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and error is not None:
            self._process.kill()
        self._turn.shutdown(cancel_futures=True)
        if self._process is not None:
            with suppress(OSError):
                try:
                    self._process.communicate(timeout=ENDS_WITHIN_S)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.communicate()

    def begin(self, drawing: Drawing, form: Form) -> Callable[[], str]:
        """Have it drawn; what is returned waits for it."""
        begun: Future[str] = self._turn.submit(self._ask, spec_of(drawing), form)
        return begun.result

    def _ask(self, spec: Mapping[str, object], form: Form) -> str:
        try:
            return self._answer(spec, form)
        except (OSError, ValueError):
            # Where no process draws beside, it is drawn here.
            return drawn(spec, form)

    def _answer(self, spec: Mapping[str, object], form: Form) -> str:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise ValueError("no process draws")
        process.stdin.write(json.dumps({"form": form, "spec": spec}) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        if "drawn" not in answer:
            raise ValueError("it could not be drawn there")
        return str(answer["drawn"])


def main(requests: IO[str], answers: IO[str]) -> None:
    """Load the engine, then answer until there are no requests any more."""
    with suppress(CannotDraw, ValueError):
        drawn(BLANK, Form.SVG)
    for line in requests:
        request = json.loads(line)
        try:
            answer = {"drawn": drawn(request["spec"], Form(request["form"]))}
        except (CannotDraw, ValueError) as error:
            answer = {"failed": str(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.stdin, sys.stdout)
