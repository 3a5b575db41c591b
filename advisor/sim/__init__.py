"""A world in memory: traces in, the planner's own steps through it, scores out. Not a second scheduler."""
