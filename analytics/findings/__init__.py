"""What is wrong with a GPU or with how it is used, and with a job over all of its GPUs: pure judgement."""

from analytics.findings.jobs import judge_jobs
from analytics.findings.judge import judge

__all__ = ["judge", "judge_jobs"]
