"""Burst plans held against published profiles and the published planner."""
