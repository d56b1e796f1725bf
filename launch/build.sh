#!/usr/bin/env bash
# Configures and builds a preset of CMakePresets.json into build/PRESET.
#
#   launch/build.sh [PRESET [TARGET]]    default: release, everything; also debug, asan, tsan
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=${1:-release}
options=()
if command -v ccache >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
cmake --preset "$preset" --log-level=WARNING "${options[@]}"
cmake --build --preset "$preset" --parallel "$(nproc)" ${2:+--target "$2"}
