"""Decides what could be done about a finding, and acts only when asked.

The folder is reserved: its import rules are enforced by ``tests/test_house.py`` from the first commit.
"""
