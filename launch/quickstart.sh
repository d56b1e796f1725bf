#!/usr/bin/env bash
# From a bare machine to a plan: Llama-3 8B, captured without weights, on 8 × 4 H100s.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source launch/env.sh
launch/setup.sh
launch/build.sh release autopar-search

model=build/llama3_8b.json.gz
if [[ ! -f $model || -n $(find io/pytorch examples/llama3.py -name '*.py' -newer "$model" -print -quit) ]]; then
  .venv/bin/python -m autopar export examples/llama3.py:llama3_8b -o "$model"
fi
mpirun -n 2 build/release/autopar-search "$model" --mesh dp=8,tp=4 --cluster h100
