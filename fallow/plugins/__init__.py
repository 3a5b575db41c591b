"""Rides for frameworks that own the training loop: each module here imports its framework, and only it.

None of them is imported by the rest of ``fallow``, which needs the standard library and torch alone.
"""
