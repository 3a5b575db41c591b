"""What a training must not lose: replicas, their randomness, and what is kept of them on a disk."""
