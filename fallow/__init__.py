"""Rides in somebody's training process: a leaf that imports the standard library and torch only."""
