"""What Fallow calls things: a file a noun, with each member's name, label, order and short sentence. Pure.

Names are stored, typed and read by others' programs: one that is chosen stays. Colours are the affair of who
draws: they are keyed by these names in ``service.charts.theme`` and ``service.cli.colours``.
"""
