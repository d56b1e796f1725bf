#!/usr/bin/env bash
# Installs what a bare Debian 12 or Ubuntu 24.04 machine lacks: packages by apt, and a Python environment in .venv.
# A second run finds everything there and does nothing.
#
#   launch/setup.sh          what is needed to build, test and run
#   launch/setup.sh --dev    also clang-format and clang-tidy, Slurm and Chromium for the tests
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(g++ cmake ninja-build git pkg-config
  libopenmpi-dev openmpi-bin libboost-mpi-dev libboost-serialization-dev libcereal-dev libtbb-dev
  libfmt-dev libspdlog-dev libcli11-dev nlohmann-json3-dev libsimdjson-dev zlib1g-dev libxxhash-dev libyaml-cpp-dev
  libgtest-dev libgmock-dev python3 python3-venv)
# Replay compares what PyTorch runs with the plan, op by op, so the version of PyTorch is part of the contract.
requirements=(torch==2.13.0 transformers numpy -e ".[export,examples,study,report,dev]")

for argument in "$@"; do
  case $argument in
    --dev) packages+=(clang-format clang-tidy slurm-wlm munge chromium) ;;
    *) echo "setup: unknown argument $argument; only --dev is known" >&2; exit 2 ;;
  esac
done

say() { echo "setup: $*"; }

install_packages() {
  local installed missing=() package root=()
  installed=$(dpkg-query -W -f='${binary:Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true)
  for package in "${packages[@]}"; do
    grep -qE "^${package//+/\\+}(:[a-z0-9]+)? installed$" <<<"$installed" || missing+=("$package")
  done
  [[ ${#missing[@]} == 0 ]] && return
  if [[ $(id -u) != 0 ]]; then
    command -v sudo >/dev/null || { say "missing: ${missing[*]}; run this as root, or install sudo" >&2; exit 1; }
    root=(sudo)
  fi
  say "apt-get install ${missing[*]}"
  "${root[@]}" apt-get update -qq
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
    </dev/null >/dev/null
}

install_python() {
  local stamp=.venv/installed hash
  # The environment holds absolute paths, so a moved checkout needs a new one.
  hash=$({ printf '%s\n' "$PWD" "${requirements[@]}"; python3 --version; cat pyproject.toml; } | sha256sum)
  [[ -f $stamp && $(<"$stamp") == "$hash" ]] && return
  say "Python environment in .venv: ${requirements[*]}"
  [[ -x .venv/bin/python && $(head -n 1 .venv/bin/pip) == "#!$PWD/"* ]] || python3 -m venv --clear .venv
  export PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1
  .venv/bin/pip install --quiet "${requirements[@]}" </dev/null
  echo "$hash" >"$stamp"
}

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  say "there is no apt here. Install the equivalents of these Debian packages by hand:" >&2
  say "  ${packages[*]}" >&2
  say "then: python3 -m venv .venv && .venv/bin/pip install ${requirements[*]@Q}" >&2
  exit 1
fi
install_packages
install_python
say "everything is there"
