"""The live cluster as decisions take it: one frozen snapshot, and what was measured beside it."""
