"""Alerts: what is worth a word, to whom, when, and what became of it."""
