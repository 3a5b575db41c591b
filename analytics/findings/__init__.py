"""What is wrong with a GPU or with how it is used: pure judgement over its recent past."""

from analytics.findings.judge import judge

__all__ = ["judge"]
