"""Where ``fallow.workers`` lay: controllers of before an upgrade still call its ``cradle`` by that name."""
