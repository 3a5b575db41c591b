"""The parts of ``bench/store.py``: what it measures, one part a file."""
