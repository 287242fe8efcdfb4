#!/bin/bash
# One job starts all Ray processes, with the head on its first node; see docs/clusters.md. Not tested.
#SBATCH --nodes=4 --ntasks-per-node=1 --gpus-per-node=4 --exclusive --signal=B:TERM@120
head=$(hostname)
export RAY_ADDRESS=$head:6379 RAY_USAGE_STATS_ENABLED=0
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=$(python -c "import secrets; print(secrets.token_hex(32))")
srun --overlap -N 1 -w $head ray start --head --port=6379 --block &
until ray status > /dev/null 2>&1; do sleep 2; done
if [ $SLURM_NNODES -gt 1 ]; then
  srun --overlap -x $head -N $((SLURM_NNODES - 1)) ray start --address=$RAY_ADDRESS --block &
fi
toolbank run recipe.yaml --out /shared/runs/mine &
command=$!
trap 'kill -TERM $command' TERM   # calls in flight finish, and the next job resumes
wait $command; wait $command
