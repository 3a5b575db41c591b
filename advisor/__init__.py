"""Decides what could be done about what was found, and acts only when asked."""
