"""Job histories as other programs write them: Slurm, PBS, LSF, Kueue, Ray, W&B, SWF, tables."""
