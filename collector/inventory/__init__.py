"""Who was given which GPU: the word of leases, Slurm, Kubernetes, environments, and of processes themselves.

``slurm`` and ``leases`` are Sources (``collector.source``) whose readings bring claims and allocations;
the rest are pure functions. Nothing here decides between two words: that is ``collector.attribution``.
"""
