"""Where workers run: slots on one machine or many, and the parent process that starts workers at once."""
