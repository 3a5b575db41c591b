"""Drives one elastic training: ``python -m fallow.controller`` is its command line."""
