#!/bin/bash
# sft-qwen: run 0vfpwx17 of Airlane. This script is the run: when it ends, its nodes are free.
#   cancel it:   air cancel 0vfpwx17
#   look at it:  air get run 0vfpwx17
#SBATCH --job-name=air-sft-qwen
#SBATCH --comment="airlane run 0vfpwx17"
#SBATCH --output="/fsx/ada/.air/runs/2026-11/0vfpwx17/supervisor.log"
#SBATCH --open-mode=append
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gres=gpu:h100:8
#SBATCH --mem=1000G
#SBATCH --partition=gpu
#SBATCH --account=ml
#SBATCH --qos=high
#SBATCH --time=06:14:00
#SBATCH --signal=B:USR1@60
#SBATCH --requeue
#SBATCH --export=ALL

python=/fsx/ada/airlane/bin/python
run=/fsx/ada/.air/runs/2026-11/0vfpwx17

# Slurm starts this on the first node of the run: what it needs must be there, too.
if [ ! -d "$run" ]; then
  echo "airlane: $(uname -n) has no $run: set home in the profile to a folder that all nodes share" >&2
  exit 78
fi
if [ ! -x "$python" ]; then
  echo "airlane: $(uname -n) has no $python: set python in the profile to an interpreter that all nodes share" >&2
  exit 78
fi

trap '' USR1  # the warning before the time limit, until the supervisor listens to it
exec "$python" -I -m airlane.supervise.batch "$run"
