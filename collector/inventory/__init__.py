"""Who was given which GPU: one file a source of allocations, read side only."""
