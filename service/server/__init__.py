"""The running service: started, its ticks and maintenance on a clock, its listeners, and a clean stop."""
