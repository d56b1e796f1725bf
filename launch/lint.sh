#!/usr/bin/env bash
# clang-tidy with .clang-tidy; warnings are errors. Needs launch/setup.sh --dev and launch/build.sh.
#
#   launch/lint.sh [FILE.cpp ...]    default: all sources but the tests
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
files=("$@")
if [[ ${#files[@]} == 0 ]]; then
  mapfile -t files < <(git ls-files '*.cpp' ':!tests')
fi
# The compile commands are GCC's, and clang does not know all of its warnings.
tidy=(clang-tidy --quiet --extra-arg=-Wno-unknown-warning-option -p "${AUTOPAR_BUILD_DIR:-build/release}")
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" "${tidy[@]}"
