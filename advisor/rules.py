"""Every number that an advice turns on, with its default, its bounds and where it comes from. Pure.

The configuration's ``[advice]`` overrides them field by field; bounds are in each field's metadata. The more
destructive an action, the longer its clock.
"""

from dataclasses import dataclass, fields

from analytics.thresholds import bounded


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceRules:
    """The defaults are the project's policy; raises ValueError outside the bounds.

    ================================ =======================================================================
    show_s                           an idle holder is shown from here on
    tell, release, pause, requeue    the ladder's clocks, in seconds of idleness, for interactive and for
                                     batch jobs; each rung costs more than the one before it
    grace_s                          between telling the owner and pausing
    requeue_start_s                  a job is never requeued this soon after its start (codalab #3979: a rule
                                     cancelled a job that was downloading 110 GB)
    checkpoint_age_s                 a checkpoint older than this is not fresh
    terminate_s, terminate_warnings  after so long, and after so many warnings, and only where an
                                     administrator set the mode of that class (``Limits.modes``)
    keeps                            how often an owner can keep an idle job, each time up to 24 h
    startup_s                        nothing is done to a job this soon after its start
    coverage_ratio                   with less of the window measured, nothing is advised
    horizon_s                        over how long a gain is reckoned; short enough to be foreseen
    resume_s                         what bringing a paused job back costs it, where it never measured that
    hog_excess_bytes, hog_excess     memory reserved beyond the peak needed, at least the larger of both: a
                                     hog is confirmed only from inside
    memory_margin, context_bytes     a cap leaves so much over the peak, and so much for the CUDA context
    shared_reserve_bytes             left free on a shared GPU
    pack_p95, pack_p95_sum           SM active of each, and of both together
    pack_window_s                    measured over
    fit_window_s, fit_p95, fit_memory  right-size: how long must have been measured; how much of a smaller
                                     share may be used
    fit_controller                   with more memory traffic a MIG slice slows a job down (MISO, A100)
    move_s, move_pays                what a move costs where no resize was measured; a plan of moves must
                                     bring at least so many times their cost
    ================================ =======================================================================
    """

    show_s: int = bounded(300, 60, 86_400)
    tell_interactive_s: int = bounded(1800, 300, 604_800)
    tell_batch_s: int = bounded(3600, 300, 604_800)
    release_interactive_s: int = bounded(1800, 300, 604_800)
    release_batch_s: int = bounded(3600, 300, 604_800)
    pause_interactive_s: int = bounded(3600, 900, 604_800)
    pause_batch_s: int = bounded(7200, 900, 604_800)
    grace_s: int = bounded(900, 300, 86_400)
    requeue_interactive_s: int = bounded(14_400, 3600, 604_800)
    requeue_batch_s: int = bounded(18_000, 3600, 604_800)
    requeue_start_s: int = bounded(7200, 1800, 604_800)
    checkpoint_age_s: int = bounded(1800, 60, 86_400)
    terminate_s: int = bounded(86_400, 14_400, 2_592_000)
    terminate_warnings: int = bounded(2, 2, 10)
    keeps: int = bounded(3, 0, 20)
    startup_s: int = bounded(1800, 600, 86_400)
    coverage_ratio: float = bounded(0.95, 0.8, 1.0)
    horizon_s: int = bounded(14_400, 3600, 604_800)
    resume_s: int = bounded(60, 0, 3600)
    hog_excess_bytes: int = bounded(4 << 30, 1 << 30, 1 << 40)
    hog_excess: float = bounded(0.25, 0.05, 1.0)
    memory_margin: float = bounded(0.2, 0.0, 1.0)
    context_bytes: int = bounded(1 << 29, 0, 8 << 30)
    shared_reserve_bytes: int = bounded(2 << 30, 0, 64 << 30)
    pack_p95: float = bounded(0.5, 0.05, 0.9)
    pack_p95_sum: float = bounded(0.9, 0.1, 1.0)
    pack_window_s: int = bounded(3600, 1800, 604_800)
    fit_window_s: int = bounded(86_400, 21_600, 2_592_000)
    fit_p95: float = bounded(0.8, 0.2, 1.0)
    fit_memory: float = bounded(0.85, 0.2, 0.95)
    fit_controller: float = bounded(0.1, 0.0, 1.0)
    move_s: int = bounded(60, 0, 3600)
    move_pays: float = bounded(2.0, 1.0, 100.0)

    def __post_init__(self) -> None:
        for item in fields(self):
            value, low, high = getattr(self, item.name), item.metadata["low"], item.metadata["high"]
            if not low <= value <= high:
                raise ValueError(f"advice {item.name} must lie in [{low}, {high}]; got {value}")
