#!/usr/bin/env bash
# Same answers, and the same work, with 1, 2, 3 and 5 ranks and 1, 2 and 4 threads; all equal to exhaustive search.
set -euo pipefail
program=$1
mpirun=$2
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$program" "$folder/reference" 1 --check
for ranks in 1 2 3 5; do
  for threads in 1 2 4; do
    "$mpirun" -n "$ranks" "$program" "$folder/other" "$threads"
    cmp "$folder/reference" "$folder/other" || { echo "differs at $ranks ranks, $threads threads" >&2; exit 1; }
  done
done
echo "equal for 1, 2, 3, 5 ranks and 1, 2, 4 threads: $(wc -l <"$folder/reference") networks"
