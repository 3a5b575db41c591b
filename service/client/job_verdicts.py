"""A job's verdict and efficiency, for pages and reports: the words are analytics' own, in one place."""

from analytics.job_verdict import efficiency, verdict

__all__ = ["efficiency", "verdict"]
