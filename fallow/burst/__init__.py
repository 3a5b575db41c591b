"""Burst parallelism: layers of one model on different numbers of ranks (DeepPool, MLSys 2022). See
docs/burst.md.
"""
