#!/usr/bin/env bash
# Give a virtual environment's Python its own, newer C library, and touch nothing else on the machine.
#
#   PATCHELF=... scripts/private_runtime.sh BASE_PYTHON VENV
#
# ML Metadata's and TFDV's wheels need glibc 2.38 and GLIBCXX_3.4.32; Debian 12 has 2.36. The three packages that hold
# them come from apt's own mirror, one release further on, are unpacked into VENV/runtime, and the venv's python is told
# to load from there (see docs/adr/0002-private-runtime.md). Children started through sys.executable inherit it.
set -euo pipefail
. "$(dirname "$0")/platform.sh"

base_python=$1
venv=$(cd "$2" && pwd)
runtime=$venv/runtime

next_suite() { # the suite after the one this system runs
  case "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" in
    bookworm) echo bookworm trixie ;;
    jammy) echo jammy noble ;;
    *) die "glibc $(glibc_version) is too old here (2.38 is needed) and no newer suite is known for this system. $IMAGE_IS_THE_WAY" ;;
  esac
}

fetch_packages() { # into $1
  command -v apt-get >/dev/null || die "glibc $(glibc_version) is too old (2.38 is needed) and there is no apt to fetch a newer one. $IMAGE_IS_THE_WAY"
  local folder=$1 suites
  suites=$(next_suite)
  set -- $suites
  mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial" "$folder/sources"
  # Only the distribution's own sources, each with the suite's name exchanged; third parties' do not know the new suite.
  local file
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
    [ -f "$file" ] && grep -qw "$1" "$file" || continue
    grep -vE '^[[:space:]]*#' "$file" | sed "s/\b$1\b/$2/g" >"$folder/sources/$(basename "$file")"
  done
  [ -n "$(ls "$folder/sources")" ] || die "apt has no source for $1 that could be asked for $2's C library. $IMAGE_IS_THE_WAY"
  cat >"$folder/apt.conf" <<CONF
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$folder/sources";
Dir::State::lists "$folder/lists";
Dir::Cache "$folder/cache";
APT::Sandbox::User "";
CONF
  export APT_CONFIG="$folder/apt.conf"
  apt-get update -qq >"$folder/log" 2>&1 ||
    die "apt could not read $2's package list: $(tail -n 1 "$folder/log"). $IMAGE_IS_THE_WAY"
  (cd "$folder" && apt-get download -qq libc6 libstdc++6 libgcc-s1 >>"$folder/log" 2>&1) ||
    die "apt could not fetch $2's libc6: $(tail -n 1 "$folder/log"). $IMAGE_IS_THE_WAY"
}

unpack_packages() {
  local package folder=$1
  rm -rf "$runtime"
  mkdir -p "$runtime"
  for package in "$folder"/*.deb; do dpkg-deb -x "$package" "$folder/unpacked"; done
  cp -a "$folder"/unpacked/usr/lib/x86_64-linux-gnu/. "$runtime/"
  rm -rf "$runtime/gconv" "$runtime/audit"
  [ -e "$runtime/ld-linux-x86-64.so.2" ] || die "the unpacked libc6 has no ld-linux-x86-64.so.2. $IMAGE_IS_THE_WAY"
}

patch_interpreter() {
  local target libpython_dir library needed=()
  target=$(readlink -f "$venv/bin/python")
  libpython_dir=$("$base_python" -c 'import sysconfig; print(sysconfig.get_config_var("LIBDIR"))')
  # These load before TensorFlow's own RUNPATH can pick the system's older copies.
  for library in libstdc++.so.6 libgcc_s.so.1 libm.so.6 libdl.so.2 librt.so.1 libpthread.so.0; do needed+=(--add-needed "$library"); done
  cp "$target" "$target.patched"
  "$PATCHELF" --set-interpreter "$runtime/ld-linux-x86-64.so.2" --force-rpath \
    --set-rpath "$runtime:$libpython_dir:/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu" "${needed[@]}" "$target.patched"
  mv "$target.patched" "$target"
  # venv --copies may leave several copies; one patched file serves all of their names.
  local name
  for name in "$venv"/bin/python*; do [ "$(readlink -f "$name")" = "$target" ] || ln -sf "$(basename "$target")" "$name"; done
  "$venv/bin/python" -c 'import sys' || die "the Python with the private C library does not start. $IMAGE_IS_THE_WAY"
}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fetch_packages "$folder"
unpack_packages "$folder"
patch_interpreter
