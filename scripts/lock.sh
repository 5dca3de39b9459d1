#!/usr/bin/env bash
# Writes requirements.lock: every package of the product and of its development, pinned with hashes,
# for every platform. Pins that still fit pyproject.toml stay; `make lock UPGRADE=1` takes the newest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly UV_VERSION=0.13.7
PYTHON="${PYTHON:-.venv/bin/python}"
[ -x "$PYTHON" ] || PYTHON="$(command -v python3)"

# The lock tool lives in a folder of its own: it is no part of the environment that it describes.
tools="$(mktemp -d)"
trap 'rm -rf "$tools"' EXIT
"$PYTHON" -m venv "$tools"
"$tools/bin/python" -m pip install -qq --disable-pip-version-check "uv==$UV_VERSION"

options=()
[ -z "${UPGRADE:-}" ] || options+=(--upgrade)
# No index address is written: whoever installs chooses where the packages come from.
"$tools/bin/uv" pip compile pyproject.toml --extra dev \
  --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-emit-find-links --no-config --custom-compile-command "make lock" \
  --quiet --output-file requirements.lock "${options[@]}"
echo "lock: requirements.lock pins $(grep -c '^[a-z].*==' requirements.lock) packages"
