"""Random kills of a real Slurm's daemons and of Fallow's processes, amid what Fallow does there."""
