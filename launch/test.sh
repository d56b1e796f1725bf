#!/usr/bin/env bash
# Sets up, builds and runs the tests.
#
#   launch/test.sh          the quick ones
#   launch/test.sh --all    also those that take minutes (labelled long or slow)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ctest_filter=(-LE "long|slow")
pytest_filter=(-m "not slow")
case ${1:-} in
  "") ;;
  --all) ctest_filter=() pytest_filter=(-m "slow or not slow") ;;
  *) echo "test: unknown argument $1; only --all is known" >&2; exit 2 ;;
esac
source launch/env.sh
launch/setup.sh
launch/build.sh

# Both run even if the first fails: one run shows all that is broken.
failed=0
ctest_options=(--test-dir build/release --parallel "$(nproc)" --output-on-failure --no-tests=error)
ctest "${ctest_options[@]}" "${ctest_filter[@]}" || failed=1
export AUTOPAR_BUILD_DIR=$PWD/build/release
.venv/bin/python -m pytest -q "${pytest_filter[@]}" tests/python || failed=1
exit "$failed"
