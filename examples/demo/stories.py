"""The stories: what people type on a machine, and what there is to see of it, told as it happens.

Each plays on a stage of its own and returns what it saw, for tests to be held to. Nothing here decides or
acts on a job: that is the service's part, with the modes and clocks that a story is set with. The calendar
runs fast, so that half an hour's patience takes seconds.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.demo.stage import Launched, Setting, Stage
from examples.toys.board import CONTEXT_BYTES, GIB

Tell = Callable[[str], None]

MOVABLE = ("--preemptible", "--checkpoint-signal", "USR1", "--grace", "10s")
"""A job that saves itself when asked, and allows to be asked."""
LONG_S = 60.0

SETTINGS = """
[acting]
every_s = 2

[advice]
coverage_ratio = 0.8
startup_s = 600
pack_window_s = 1800

[findings]
hog_window_s = 600
idle_window_s = 1800
grace_s = 0
coverage_ratio = 0.6
stale_ticks = 6
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A name, what it shows in a line, the machine it plays on, and the play itself."""

    name: str
    shows: str
    setting: Setting
    play: Callable[[Stage, Tell], Mapping[str, Any]]


def hog(stage: Stage, tell: Tell) -> Mapping[str, Any]:
    """A TensorFlow that takes a whole GPU for 12 GiB is started again, and somebody fits beside it."""
    tell("ann wants half a GPU for a TensorFlow training, and refuses the memory defaults.")
    flags = ("--project", "vision", "--gpus", "0.5", "--memory", "12GiB", "--no-memory-defaults", *MOVABLE)
    first = stage.run(
        "hog", flags, ("tensorflow_like", "--needs", "12", "--busy", "15", *_long(stage, "hog"))
    )
    stage.until("the hog has the whole GPU", lambda: _held(stage, 0) > 70 * GIB, LONG_S)
    (hog_pid,) = stage.on(0)
    tell(f"Asked for 12 GiB, it took {_held(stage, 0) / GIB:.0f} of 80, as TensorFlow does.")
    stage.until("the store has seen that", lambda: _seen_memory(stage) > 70 * GIB, LONG_S)
    wants = ("--project", "vision", "--gpus", "0.5", "--memory", "30GiB", *MOVABLE)
    second = stage.run("second", wants, ("unfilled", "--needs", "30", *_long(stage, "second")))
    tell("bob wants the other half, with 30 GiB. There is no room: he waits.")
    stage.until("both are on the GPU", lambda: len(stage.on(0)) == 2, LONG_S)
    grown = {pid: size for pid, size in stage.on(0).items() if size <= 12 * GIB + CONTEXT_BYTES}
    tell("The hog was asked to save itself, started again with TF_FORCE_GPU_ALLOW_GROWTH=true,")
    tell(f"and takes {sum(grown.values()) / GIB:.1f} GiB now. bob's job runs beside it.")
    return {"jobs": (first, second), "hog_pid": hog_pid, "grown": grown}


def halves(stage: Stage, tell: Tell) -> Mapping[str, Any]:
    """Two jobs that each use a third of their GPU are put on one, and a third job gets the other GPU."""
    tell("Two trainings have a GPU each, and keep it a third busy. A third one waits for a whole GPU.")
    flags = ("--project", "vision", "--gpus", "1", "--memory", "12GiB", "--share-ok", *MOVABLE)
    toy = ("unfilled", "--needs", "12", "--busy", "30")
    both = [stage.run(name, flags, (*toy, *_long(stage, name))) for name in ("left", "right")]
    stage.until("each has a GPU", lambda: all(len(stage.on(gpu)) == 1 for gpu in range(2)), LONG_S)
    before = [next(iter(stage.on(gpu))) for gpu in range(2)]
    whole = ("--project", "speech", "--gpus", "1", "--memory", "70GiB")
    third = stage.run("third", whole, ("unfilled", "--needs", "70", "--busy", "90", "--steps", "100000"))
    stage.until("one GPU has both, the other the third", lambda: _shared_and_whole(stage), 2 * LONG_S)
    tell("Each saved itself and went on; together they fill one GPU. The other one has the third job.")
    return {"jobs": (*both, third), "before": before}


def quotas(stage: Stage, tell: Tell) -> Mapping[str, Any]:
    """One project has all four GPUs until another wants its quota of two, and again when that is done."""
    tell(
        "vision and speech are guaranteed two of four GPUs each. Nobody else is here: vision takes all four."
    )
    one = ("--project", "vision", "--gpus", "1", "--memory", "12GiB", *MOVABLE)
    toy = ("unfilled", "--needs", "12", "--busy", "90")
    names = [f"vision-{i}" for i in range(4)]
    first = [stage.run(name, one, (*toy, *_long(stage, name))) for name in names]
    stage.until("vision has all four", lambda: _busy_gpus(stage) == 4, LONG_S)
    stage.until("each has run for its minimum", lambda: _ran_s(stage, names) > MIN_RUNTIME_S, LONG_S)
    tell("Now speech submits two jobs, and is entitled to them.")
    wants = ("--project", "speech", "--gpus", "1", "--memory", "12GiB")
    steps = ("--steps", "60", "--step-s", "0.1")
    second = [stage.run(f"speech-{i}", wants, (*toy, *steps)) for i in range(2)]
    stage.until("speech has its two", lambda: _stands(stage, "speech-", "running") == 2, LONG_S)
    shared = _stands(stage, "vision-", "running")
    tell("Two of vision's jobs saved themselves and wait in the queue again; the other two go on.")
    stage.until("speech is done", lambda: all(job.process.poll() == 0 for job in second), LONG_S)
    stage.until("vision has all four again", lambda: _stands(stage, "vision-", "running") == 4, LONG_S)
    stage.until("and works on them", lambda: _busy_gpus(stage) == 4, LONG_S)
    tell("speech is done; vision's two went on from where they had saved.")
    return {"jobs": (*first, *second), "vision_beside_speech": shared}


def elastic(stage: Stage, tell: Tell) -> Mapping[str, Any]:
    """A training that wants two GPUs starts on one, grows onto the second, and computes the same losses."""
    losses = stage.folder / "losses.jsonl"
    tell("A job has one of two GPUs. An elastic training wants two, and starts on the one that is free.")
    whole = ("--project", "speech", "--gpus", "1", "--memory", "12GiB")
    other = stage.run("other", whole, ("unfilled", "--needs", "12", "--busy", "90", "--steps", "100000"))
    stage.until("the other job runs", lambda: _busy_gpus(stage) == 1, LONG_S)
    flags = ("--project", "vision", "--gpus", "1-2", "--memory", "24GiB", "--elastic", "--preemptible")
    words = ("--steps", str(ELASTIC_STEPS), "--pause", "0.1", "--losses", str(losses))
    training = stage.run("elastic", flags, ("elastic", *words))
    stage.until(
        "it computes, and has told how fast", lambda: len(read_losses(losses)) >= TOLD_STEPS, 2 * LONG_S
    )
    stage.order("cancel", _id_of(stage, "other"))
    tell("The other job is cancelled; its GPU is free, nobody else wants it.")
    stage.until("the other job has ended", lambda: other.process.poll() is not None, LONG_S)
    stage.until("it computes on two", lambda: _worlds(losses) == [1, 2], LONG_S)
    workers = [tuple(stage.on(gpu)) for gpu in range(2)]
    tell("The training took the second GPU in between two steps.")
    stage.until("it is done", lambda: training.process.poll() is not None, 2 * LONG_S)
    fixed = stage.folder / "fixed.jsonl"
    stage.alone(("elastic", "--steps", str(ELASTIC_STEPS), "--pause", "0", "--losses", str(fixed)))
    same = [row["loss"] for row in read_losses(losses)] == [row["loss"] for row in read_losses(fixed)]
    tell(f"The same training, alone on one GPU all the time: {ELASTIC_STEPS} losses, {_same(same)}.")
    return {
        "jobs": (other, training),
        "losses": read_losses(losses),
        "fixed": read_losses(fixed),
        "workers": workers,
    }


def notebook(stage: Stage, tell: Tell) -> Mapping[str, Any]:
    """An idle notebook's owner is told, keeps it, is told again; it is paused, and goes on when touched."""
    tell("carl's notebook computes for a moment, and then he goes to lunch.")
    saved = stage.folder / "notebook.json"
    flags = ("--project", "vision", "--gpus", "1", "--memory", "8GiB", "--interactive", *MOVABLE)
    job = stage.run("notebook", flags, ("notebook", "--checkpoint", str(saved)), terminal=True)
    stage.until("its first cell is done", lambda: "cell 1 done" in job.text, LONG_S)
    first_pid = next(iter(stage.on(0)))
    stage.until("he is told", lambda: _was_told(stage), 2 * LONG_S)
    tell("His terminal says that his GPU lies idle, and what will follow. He keeps it for four hours.")
    stage.order("keep", _id_of(stage, "notebook"), "--for", "4h")
    held = stage.on(0)
    kept_ms = next(row.at_ms or 0 for row in stage.actions() if row.verb == "keep")
    stage.until("he is told again", lambda: _was_told(stage, since_ms=kept_ms), 3 * LONG_S)
    tell("Four hours later he is told again, and doesn't answer.")
    stage.until("it is paused", lambda: not stage.on(0), 2 * LONG_S)
    tell("The notebook saved itself; its GPU is free. Then he comes back and presses a key.")
    job.type("\n")
    stage.until("it is back", lambda: stage.on(0), 2 * LONG_S)
    (second_pid,) = stage.on(0)
    return {"jobs": (job,), "pids": (first_pid, second_pid), "kept": held}


def gaps(stage: Stage, tell: Tell) -> Mapping[str, Any]:
    """A sweep computes in the idle gaps of a training, at no GPU of its own, and leaves by one command."""
    busy, done = stage.folder / "busy", stage.folder / "done"
    tell("jo's training has the only GPU, and lets it wait for data for half of each step.")
    words = ("--steps", "100000", "--pause", "0.06", "--compute", "0.03", "--busy", str(busy))
    front = stage.run("training", ("--elastic", "--memory", "24GiB"), ("elastic", *words))
    stage.until("it has measured its gaps", lambda: _announces(stage, "training"), 2 * LONG_S)
    host = _id_of(stage, "training")
    tell("mara sends a sweep that needs no GPU of its own: fallow run --background -- python sweep.py")
    log = stage.folder / "sweep-steps"
    flags = ("--background", "--memory", "4GiB", "--grace", "2s")
    guest = stage.run("sweep", flags, ("sweep", "--done", str(done), "--log", str(log)))
    stage.until("it computes", lambda: _lines(log) > 20, 2 * LONG_S)
    told = stage.until("what it gives and costs is measured", lambda: _harvest(stage, host), 2 * LONG_S)
    tell(f"Both are on the GPU, and `fallow explain {host}` says what that gives, and what it costs jo:")
    tell(told)
    stage.order("keep", host, "--alone")
    stage.until("it waits again", lambda: _stands(stage, "sweep", "pending") == 1, LONG_S)
    made, ahead = _lines(log), _lines(busy) + 20
    stage.until("the training makes ten steps", lambda: _lines(busy) > ahead, LONG_S)
    alone = _lines(log) - made
    tell(f"`fallow keep {host} --alone`: the sweep waits in its queue. The training went on all the time.")
    return {"jobs": (front, guest), "told": told, "steps_alone": alone, "busy": busy, "log": log}


ELASTIC_STEPS = 500
TOLD_STEPS = 60
"""Steps of a tenth of a second after which a training has said how fast it is on one GPU."""
MIN_RUNTIME_S = 600.0

STORIES = (
    Story(
        name="hog",
        shows="a TensorFlow hog is restarted with allow-growth, and a second job fits beside it",
        setting=Setting(gpus=1, speed=60, settings=SETTINGS + '[modes]\ncap_memory = "auto"\n'),
        play=hog,
    ),
    Story(
        name="halves",
        shows="two half-used GPUs become one",
        setting=Setting(gpus=2, speed=120, settings=SETTINGS + '[modes]\npack = "auto"\n'),
        play=halves,
    ),
    Story(
        name="quotas",
        shows="who holds more than his quota gives it back, and gets it again afterwards",
        setting=Setting(
            gpus=4,
            speed=60,
            settings=SETTINGS
            + '[modes]\nfair_share = "auto"\n[quotas.vision]\ngpus = 2\n[quotas.speech]\ngpus = 2\n',
        ),
        play=quotas,
    ),
    Story(
        name="elastic",
        shows="a training grows onto a GPU that comes free, and its losses stay the same",
        setting=Setting(gpus=2, speed=60, settings=SETTINGS + '[modes]\nresize = "auto"\n'),
        play=elastic,
    ),
    Story(
        name="gaps",
        shows="a sweep computes while a training waits for data, and leaves by one command",
        setting=Setting(gpus=1, speed=1, patience=2, settings=SETTINGS + '[modes]\nbackground = "auto"\n'),
        play=gaps,
    ),
    Story(
        name="notebook",
        shows="an idle notebook is told, kept, told again, paused, and resumes on touch",
        setting=Setting(gpus=1, speed=240, settings=SETTINGS + '[modes]\nreclaim = "auto"\n'),
        play=notebook,
    ),
)


def read_losses(path: Path) -> list[Mapping[str, Any]]:
    """What rank 0 wrote, a row a step."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def _long(stage: Stage, name: str) -> Sequence[str]:
    return "--steps", "100000", "--checkpoint", str(stage.folder / f"{name}.json")


def _held(stage: Stage, gpu: int) -> int:
    return sum(stage.on(gpu).values())


def _announces(stage: Stage, name: str) -> bool:
    return any(row.name == name and row.report and row.report.idle_gaps for row in stage.jobs())


def _harvest(stage: Stage, job: str) -> str:
    """What ``fallow explain`` says of its idle gaps, once it is measured."""
    lines = stage.fallow("explain", job).stdout.splitlines()
    return next((line.strip() for line in lines if "GPU time harvested" in line), "")


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def _busy_gpus(stage: Stage) -> int:
    return sum(bool(held) for held in stage.witness.now().values())


def _shared_and_whole(stage: Stage) -> bool:
    on = sorted((len(held), sum(held.values())) for held in stage.witness.now().values())
    return [count for count, _ in on] == [1, 2] and on[0][1] >= 70 * GIB


def _seen_memory(stage: Stage) -> int:
    return max(row["memory_used_bytes"] or 0 for row in stage.rows("gpus_now"))


def _id_of(stage: Stage, name: str) -> str:
    return next(str(row.job) for row in stage.jobs() if row.name == name)


def _stands(stage: Stage, prefix: str, stand: str) -> int:
    return sum(row.name.startswith(prefix) and row.state == stand for row in stage.jobs())


def _ran_s(stage: Stage, names: Sequence[str]) -> float:
    rows = [row for row in stage.jobs() if row.name in names]
    now_ms = stage.now_ms()
    return min((now_ms - (row.started_ms or now_ms)) / 1000 for row in rows)


def _same(equal: bool) -> str:
    return "equal to the last bit" if equal else "and they differ"


def _worlds(losses: Path) -> list[int]:
    return sorted({row["world"] for row in read_losses(losses)})


def _was_told(stage: Stage, since_ms: int = 0) -> bool:
    return any(
        row.verb == "notify" and row.outcome == "done" and (row.at_ms or 0) > since_ms
        for row in stage.actions()
    )


def ended(jobs: Sequence[Launched]) -> bool:
    """Whether all of them are over."""
    return all(job.process.poll() is not None for job in jobs)
