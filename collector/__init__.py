"""Sees: what every GPU did, and who was given it. Nothing here judges; analytics does."""
