"""Machines that push what they measure (``fallow node``): how it travels, and the Source that takes it in."""
