"""Growth inside Slurm: further jobs of the same owner, which Slurm may take back, lend a training GPUs."""
