#!/usr/bin/env bash
# Makes .venv ready: Java for Spark, a Python environment, the pinned packages, Sash itself.
#
# Safe to run again: a stamp inside .venv names what was installed (the lock, pyproject.toml, the place
# of the checkout), and a run that finds its own stamp does nothing. The stamp is removed before anything
# is changed and written last, so a set-up that failed or was stopped never looks finished.
#
# PYTHON=/path/to/python chooses the interpreter; JAVA_HOME the Java.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly ROOT="$PWD"
readonly VENV="$ROOT/.venv"
readonly STAMP="$VENV/.sash-setup"
readonly JAVA_PACKAGE=openjdk-17-jre-headless
readonly JAVA_LEAST=17

say() { printf 'setup: %s\n' "$*"; }

fail() {
  printf 'setup: error: %s\n' "$1" >&2
  shift
  local line
  for line in "$@"; do printf '  hint: %s\n' "$line" >&2; done
  exit 1
}

can_apt() { [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; }

# Output of apt-get is shown only when it fails.
apt_install() {
  local log
  log="$(mktemp)"
  if apt-get update >"$log" 2>&1 &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >>"$log" 2>&1; then
    rm -f "$log"
    return 0
  fi
  tail -n 20 "$log" >&2
  rm -f "$log"
  fail "apt-get could not install $*" "install $* by hand and run 'make setup' again"
}

# The major version of a java program, or 0 where it cannot run. "1.8.0_372" is Java 8.
java_major() {
  local version
  version="$("$1" -version 2>&1 | sed -n 's/.*version "\([0-9][0-9.]*\).*/\1/p' | head -n 1)" || true
  version="${version#1.}"
  version="${version%%.*}"
  echo "${version:-0}"
}

ensure_java() {
  local major
  # Spark prefers JAVA_HOME to the PATH, so a JAVA_HOME that cannot serve is an error, whatever else is there.
  if [ -n "${JAVA_HOME:-}" ]; then
    major=0
    [ ! -x "$JAVA_HOME/bin/java" ] || major="$(java_major "$JAVA_HOME/bin/java")"
    [ "$major" -ge "$JAVA_LEAST" ] ||
      fail "JAVA_HOME ($JAVA_HOME) does not hold Java $JAVA_LEAST or newer, which Spark needs" \
        "set JAVA_HOME to a newer Java, or unset it to use the one on the PATH"
    return 0
  fi
  major=0
  ! command -v java >/dev/null 2>&1 || major="$(java_major java)"
  [ "$major" -lt "$JAVA_LEAST" ] || return 0

  local found="no Java was found"
  [ "$major" -eq 0 ] || found="the java on the PATH is version $major"
  can_apt || fail "Spark needs Java $JAVA_LEAST or newer, and $found" \
    "on Debian or Ubuntu: sudo apt-get install $JAVA_PACKAGE" \
    "elsewhere: install any Java $JAVA_LEAST+ and put it on the PATH or into JAVA_HOME"
  say "$found; installing $JAVA_PACKAGE with apt-get"
  apt_install "$JAVA_PACKAGE"
  hash -r
  ! command -v java >/dev/null 2>&1 || major="$(java_major java)"
  [ "$major" -ge "$JAVA_LEAST" ] ||
    fail "$JAVA_PACKAGE is installed, but the java on the PATH is not it" \
      "set JAVA_HOME to a folder of /usr/lib/jvm that holds Java $JAVA_LEAST or newer"
}

is_python() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
  local candidate
  if [ -n "${PYTHON:-}" ]; then
    is_python "$PYTHON" || fail "PYTHON=$PYTHON is not a Python 3.11 or newer"
    command -v "$PYTHON"
    return 0
  fi
  # 3.11 first: the lock was tried with it.
  for candidate in python3.11 python3 python3.12 python3.13; do
    if is_python "$candidate"; then
      command -v "$candidate"
      return 0
    fi
  done
  fail "no Python 3.11 or newer was found" \
    "on Debian 12: apt-get install python3 python3-venv" \
    "or name one: make setup PYTHON=/path/to/python3"
}

# Debian splits the part of Python that makes environments into packages of their own.
ensure_venv_module() {
  local python="$1" version
  ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1 || return 0
  version="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
  can_apt || fail "$python cannot make environments: its venv module is incomplete" \
    "on Debian or Ubuntu: sudo apt-get install python3-venv (or python$version-venv)"
  say "$python lacks venv; installing python$version-venv with apt-get"
  apt_install "python$version-venv"
  "$python" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
    fail "$python still cannot make environments" "choose another: make setup PYTHON=/path/to/python3"
}

# A copied or moved .venv points at its old place, and one whose Python was removed does not start.
is_venv_usable() {
  [ -x "$VENV/bin/python" ] &&
    grep -qF "$VENV" "$VENV/bin/activate" 2>/dev/null &&
    is_python "$VENV/bin/python" &&
    "$VENV/bin/python" -m pip --version >/dev/null 2>&1
}

key() {
  { cat requirements.lock pyproject.toml experiments/pyproject.toml scripts/setup.sh && printf '%s\n' "$ROOT" "${PYTHON:-}"; } |
    sha256sum | cut -d ' ' -f 1
}

quiet_pip() {
  "$VENV/bin/python" -m pip --disable-pip-version-check --no-input install -qq "$@" ||
    fail "pip could not install the packages" "see the lines above; then run 'make setup' again"
}

ensure_java

wanted="$(key)"
if [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$wanted" ] && is_venv_usable; then
  exit 0
fi
rm -f "$STAMP"

python="$(find_python)"
if [ -n "${PYTHON:-}" ] || ! is_venv_usable; then
  ensure_venv_module "$python"
  say "making .venv with $("$python" --version 2>&1) ($python)"
  rm -rf "$VENV"
  "$python" -m venv "$VENV"
fi
say "installing $(grep -c '==' requirements.lock) pinned packages (the first time takes some minutes)"
quiet_pip --require-hashes -r requirements.lock
say "installing sash"
quiet_pip --no-deps --no-build-isolation --editable . --editable ./experiments

printf '%s\n' "$wanted" >"$STAMP"
say "ready: .venv/bin/sash"
