"""The parts of ``bench/realism.py``."""
