"""The running service: start, ticks and chores on a clock, the HTTP server's thread, a clean stop."""
