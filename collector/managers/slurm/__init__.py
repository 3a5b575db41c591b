"""Slurm through its own programs' text, which every release since 20.11 prints alike."""
