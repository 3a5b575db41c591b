"""Readers of public job traces: a file in, a ``Workload`` out, and each senseless row counted by name."""
