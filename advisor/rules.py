"""Every number that an advice turns on, with its default, its bounds and where it comes from. Pure.

The configuration's ``[advice]`` overrides them field by field; bounds are in each field's metadata. The more
destructive an action, the longer its clock.
"""

from dataclasses import dataclass, fields

from analytics.thresholds import bounded


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerConfig:
    """When something is advised.

    The more destructive an action, the longer its clock; [advice](advice.md) says how they are used.
    """

    # The defaults are the project's policy. Each rung of the ladder costs more than the one before it. A
    # job is never requeued soon after its start because a rule once cancelled one that was downloading 110
    # GB (codalab #3979); a hog is confirmed only from inside; with more memory traffic than
    # `fit_controller` a MIG slice slows a job down (MISO, on A100).

    show_s: int = bounded(300, 60, 86_400, "an idle holder is shown from here on")
    tell_interactive_s: int = bounded(
        1800, 300, 604_800, "idle so long: tell the owner of an interactive job"
    )
    tell_batch_s: int = bounded(3600, 300, 604_800, "the same for a batch job")
    release_interactive_s: int = bounded(
        1800, 300, 604_800, "idle so long: have the job give cached memory back (interactive)"
    )
    release_batch_s: int = bounded(3600, 300, 604_800, "the same for a batch job")
    pause_interactive_s: int = bounded(3600, 900, 604_800, "idle so long: checkpoint or pause (interactive)")
    pause_batch_s: int = bounded(7200, 900, 604_800, "the same for a batch job")
    grace_s: int = bounded(900, 300, 86_400, "between telling the owner and pausing")
    requeue_interactive_s: int = bounded(
        14_400, 3600, 604_800, "idle so long, and only with a fresh checkpoint: requeue (interactive)"
    )
    requeue_batch_s: int = bounded(18_000, 3600, 604_800, "the same for a batch job")
    requeue_start_s: int = bounded(7200, 1800, 604_800, "no job is requeued this soon after its start")
    checkpoint_age_s: int = bounded(
        1800, 60, 86_400, "an older checkpoint is not fresh, unless the job has been idle since it"
    )
    terminate_s: int = bounded(
        86_400, 14_400, 2_592_000, "idle so long: end it, only where `modes.terminate` is `ask` or `auto`"
    )
    terminate_warnings: int = bounded(2, 2, 10, "and after so many warnings")
    keeps: int = bounded(
        3, 0, 20, "how often an owner can keep an idle job for 4, 8 or 24 h; then only an administrator"
    )
    startup_s: int = bounded(1800, 600, 86_400, "nothing is said of a job this soon after its start")
    coverage_ratio: float = bounded(0.95, 0.8, 1.0, "with less of the time measured, nothing is advised")
    horizon_s: int = bounded(
        14_400, 3600, 604_800, "over how long a gain is reckoned; short enough to be foreseen"
    )
    resume_s: int = bounded(
        60, 0, 3600, "what bringing a paused job back costs it, where it never measured that"
    )
    hog_excess_bytes: int = bounded(
        4 << 30, 1 << 30, 1 << 40, "memory held beyond the peak needed: at least so much is a confirmed hog"
    )
    hog_excess: float = bounded(0.25, 0.05, 1.0, "and at least this part of the GPU")
    memory_margin: float = bounded(0.2, 0.0, 1.0, "a cap leaves so much over the peak")
    context_bytes: int = bounded(1 << 29, 0, 8 << 30, "and so much for the CUDA context")
    shared_reserve_bytes: int = bounded(2 << 30, 0, 64 << 30, "left free on a shared GPU")
    pack_p95: float = bounded(0.5, 0.05, 0.9, "95th percentile of SM active of each of a pair, at most")
    pack_p95_sum: float = bounded(0.9, 0.1, 1.0, "and of both together")
    pack_window_s: int = bounded(3600, 1800, 604_800, "measured over so long")
    fit_window_s: int = bounded(
        86_400, 21_600, 2_592_000, "how long a job must have been measured before a smaller size is advised"
    )
    fit_p95: float = bounded(
        0.8, 0.2, 1.0, "how much of a smaller size's compute its busiest minutes may fill"
    )
    fit_memory: float = bounded(0.85, 0.2, 0.95, "and its peak of the memory")
    fit_controller: float = bounded(0.1, 0.0, 1.0, "with more memory traffic no MIG slice is advised")
    move_s: int = bounded(60, 0, 3600, "what a move costs, where no resize was measured")
    move_pays: float = bounded(2.0, 1.0, 100.0, "moves must bring so many times what they cost")

    def __post_init__(self) -> None:
        for item in fields(self):
            value, low, high = getattr(self, item.name), item.metadata["low"], item.metadata["high"]
            if not low <= value <= high:
                raise ValueError(f"advice {item.name} must lie in [{low}, {high}]; got {value}")
