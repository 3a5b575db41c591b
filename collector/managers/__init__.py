"""Workload managers, as Fallow sees them: what they gave to whom, who waits for what, which nodes they have.

One port (``model.Manager``) for all of them. Read side only: nothing here changes a job.
"""
