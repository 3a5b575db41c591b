"""``make demo``: plays the stories here and tells them in the terminal; ``--record FILE.svg`` keeps it.

python -m examples.demo                   # all of them, about three minutes
python -m examples.demo hog quotas        # some
"""

import argparse
import contextlib
import importlib.util
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from examples.demo.stage import Stage, StoryFailed
from examples.demo.stories import STORIES, Story
from examples.toys.board import GIB
from tests.driver.driver import CompilerMissing, build

WIDTH = 108
BAR = 24
TRAINS = ("elastic", "gaps")
BEHIND = ("notebook",)
"""Takes longest and is quiet: it plays while the others are told, and is told last."""


def main() -> int:
    """Play what was asked for; 0 if every story came to its end."""
    parser = argparse.ArgumentParser(prog="demo", description="Plays Fallow's stories with real processes.")
    parser.add_argument("stories", nargs="*", metavar="STORY", help=", ".join(each.name for each in STORIES))
    parser.add_argument("--record", type=Path, metavar="FILE.svg", help="keep what was told as a picture")
    asked = parser.parse_args()
    console = Console(width=WIDTH, record=asked.record is not None, highlight=False)
    known = {story.name: story for story in STORIES}
    for name in asked.stories:
        if name not in known:
            parser.error(f"there is no story {name!r}; there are {', '.join(known)}")
    try:
        build()
    except CompilerMissing as missing:
        console.print(f"The demo needs a C compiler: {missing}")
        return 1
    chosen = [known[name] for name in asked.stories or known]
    ended = _perform(console, [story for story in chosen if _can_play(console, story)])
    if asked.record is not None:
        console.save_svg(str(asked.record), title="make demo")
    return 0 if ended else 1


class Teller:
    """Tells one story: each line with its time and with what is on the GPUs at that moment."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.lines: list[Text] = []
        self.failure: str | None = None
        self._live: Console | None = None
        self._guard = threading.Lock()

    def play(self) -> None:
        """Play it to its end; blocks."""
        began_s = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="fallow-demo-") as folder:
            try:
                with Stage(Path(folder) / self.story.name, self.story.setting) as stage:
                    self.story.play(stage, lambda line: self._say(line, time.monotonic() - began_s, stage))
            except StoryFailed as failure:
                self.failure = str(failure)

    def show(self, console: Console) -> None:
        """Print what was told so far, and from now on each line as it comes."""
        console.print()
        console.rule(f"[bold]{self.story.name}[/bold]: {self.story.shows}", align="left")
        with self._guard:
            for line in self.lines:
                console.print(line)
            self._live = console

    def _say(self, line: str, at_s: float, stage: Stage) -> None:
        text = Text(f"{at_s:5.1f} s  ", style="dim").append(line, style="not dim")
        for row in _gpus(stage):
            text.append("\n").append(row)
        with self._guard:
            self.lines.append(text)
            if self._live is not None:
                self._live.print(text)


def _perform(console: Console, stories: Sequence[Story]) -> bool:
    console.print(
        Text("Real processes, a real service, a real driver interface; only the GPUs are stand-ins, and ")
        + Text("the calendar runs fast.")
    )
    behind = [Teller(story) for story in stories if story.name in BEHIND and len(stories) > 1]
    threads = [threading.Thread(target=teller.play, name=teller.story.name) for teller in behind]
    for thread in threads:
        thread.start()
    front = [Teller(story) for story in stories if story.name not in {each.story.name for each in behind}]
    for teller in front:
        teller.show(console)
        teller.play()
        _own_up(console, teller)
    for teller, thread in zip(behind, threads, strict=True):
        teller.show(console)
        thread.join()
        _own_up(console, teller)
    return all(teller.failure is None for teller in (*front, *behind))


def _own_up(console: Console, teller: Teller) -> None:
    if teller.failure is not None:
        console.print(Text(f"This story did not come to its end: {teller.failure}", style="red"))


def _can_play(console: Console, story: Story) -> bool:
    if story.name not in TRAINS or importlib.util.find_spec("torch") is not None:
        return True
    console.print(
        f"[yellow]Left out: {story.name}. It trains with PyTorch, which is not installed here (torch)."
    )
    return False


def _gpus(stage: Stage) -> Sequence[Text]:
    rows = []
    for slot, uuid in enumerate(stage.uuids):
        held = stage.witness.now()[uuid]
        total = stage.driver.gpu(slot).memory_total
        cells = [round(BAR * size / total) or 1 for size in held.values()]
        row = Text(f"         GPU {slot} ", style="dim")
        for cell, style in zip(cells, ("green", "cyan", "magenta", "yellow"), strict=False):
            row.append("█" * cell, style=style)
        row.append("·" * (BAR - sum(cells)), style="dim")
        words = ", ".join(f"{_job_name(pid)} {size / GIB:.1f} GiB" for pid, size in held.items())
        rows.append(row.append(f"  {words or 'free'}", style="dim"))
    return rows


def _job_name(pid: int) -> str:
    """What a toy is called: its module's last word."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        if (module := next((word for word in words if word.startswith("examples.toys.")), None)) is not None:
            return module.rpartition(".")[2]
    return f"process {pid}"


if __name__ == "__main__":
    sys.exit(main())
