#!/bin/sh
# An elastic training as a job of Slurm's: its floor is this job's GPUs, and it may grow by two preemptible ones.
#     sbatch examples/slurm-elastic.sh train.py --epochs 3
#SBATCH --job-name=elastic
#SBATCH --gres=gpu:1
#SBATCH --output=elastic-%j.log
#SBATCH --open-mode=append
exec srun --ntasks=1 python -m fallow.controller \
  --listen "$(hostname -I | cut -d ' ' -f 1):0" --socket "elastic-$SLURM_JOB_ID.socket" \
  --min 1 --max 8 --top-up 2 --top-up-sbatch "${TOP_UP:---qos=preemptible --gres=gpu:1}" \
  -- "$@"
