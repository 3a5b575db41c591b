"""Plans layers of a model on different numbers of GPUs, from a layer table. Pure; see docs/burst.md."""
