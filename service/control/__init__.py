"""Where people and launchers order, and the loop that acts; the API knows ``interface`` and ``errors``."""
