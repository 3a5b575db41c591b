"""A machine that measures itself and pushes it to a head: ``fallow node``. It listens to nobody."""
