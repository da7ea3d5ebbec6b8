# Sourced by bootstrap.sh: what this machine is, and one plain line where it cannot run Sluice as it is.

IMAGE_IS_THE_WAY="The container image runs there: see kubeflow/Dockerfile (make image)."

die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

sha256() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi; }

glibc_version() { getconf GNU_LIBC_VERSION 2>/dev/null | awk '{print $2}'; }

version_below() { [ "$1" != "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

needs_private_runtime() { [ "$(uname -s)" = Linux ] && version_below "$(glibc_version)" 2.38; }

python_version() { "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null; }

check_system() {
  case "$(uname -s)-$(uname -m)" in
    Linux-x86_64)
      [ -n "$(glibc_version)" ] || die "This Linux has no glibc (musl?), and TensorFlow has no wheels for it. $IMAGE_IS_THE_WAY"
      if [ -r /proc/cpuinfo ] && ! grep -qw avx /proc/cpuinfo; then
        die "This CPU has no AVX, which TensorFlow's wheels need. Use another machine; no image can help."
      fi ;;
    Darwin-arm64) ;;
    *) die "$(uname -s) on $(uname -m) has no TFX wheels: Sluice runs on Linux x86-64 and macOS arm64. $IMAGE_IS_THE_WAY" ;;
  esac
  command -v c++ >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null ||
    die "No C++ compiler found (pyfarmhash has no wheel). Install one: apt-get install g++   or   xcode-select --install"
}

# The first of these that is 3.11 to 3.13 and has its headers. Set PYTHON to choose one.
find_python() {
  local candidate found="" version
  for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
    command -v "$candidate" >/dev/null || continue
    version=$(python_version "$candidate") || continue
    case "$version" in 3.11.*|3.12.*|3.13.*) ;; *) found="$found $candidate=$version"; continue ;; esac
    if ! "$candidate" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))'; then
      found="$found $candidate=$version-without-headers"; continue
    fi
    # Not the command's name but the interpreter behind it: a shim would change with the folder one stands in.
    "$candidate" -c 'import os, sys; print(os.path.realpath(sys.executable))'
    return
  done
  case "$found" in
    *without-headers*) die "Found${found}: its C headers (Python.h) are missing. Install them: apt-get install python3-dev" ;;
    "") die "No Python found. Sluice needs Python 3.11, 3.12 or 3.13 with its headers: apt-get install python3-dev" ;;
    *) die "Found${found}, but TFX 1.21 runs on Python 3.11, 3.12 or 3.13. Install one of them, or name it: make PYTHON=/path/to/python3.12" ;;
  esac
}
