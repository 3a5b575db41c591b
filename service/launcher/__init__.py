"""``fallow run``: asks for a lease as the user, runs the job on it, and carries out what the service says.

``life`` decides (pure), ``world`` says what workers see (pure), ``guard`` is the parent of all workers, and
``running`` joins them with the terminal and the service.
"""
