"""How the micro-batches of a step become one gradient, alone or summed over all workers."""
