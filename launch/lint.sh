#!/usr/bin/env bash
# clang-tidy with .clang-tidy over C++ sources; warnings are errors. Slow, so not a part of .ci/run as a whole.
#
#   launch/lint.sh [FILE.cpp ...]    default: all sources; build/release must have been configured
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
files=("$@")
if [[ ${#files[@]} == 0 ]]; then mapfile -t files < <(git ls-files 'costs/*.cpp' 'engine/*.cpp' 'partition/*.cpp' 'io/*.cpp' 'launch/*.cpp'); fi
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet --warnings-as-errors='*' -p build/release
