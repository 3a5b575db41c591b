"""What is asked of a training while it runs: to save, to give memory back, to stay under a cap."""
