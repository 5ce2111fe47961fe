# Sourced: makes .venv from a lock file, once for each content of the lock.
#     . tools/environment.sh run|dev
# Needs Python 3.11 or newer. As root on Debian or Ubuntu it installs the venv module if that is missing.

# Ansible refuses to start without a UTF-8 locale, which fresh machines lack.
export LC_ALL=C.UTF-8

find_python() {
  for name in python3 python3.13 python3.12 python3.11; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$name"
      return
    fi
  done
  echo "Strata needs Python 3.11 or newer (given: $(python3 --version 2>&1))." >&2
  return 2
}

make_venv() {
  python="$(find_python)"
  "$python" -m venv .venv >/dev/null 2>&1 && return
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "Python's venv module is missing: install it (Debian, Ubuntu: apt install python3-venv)." >&2
    return 2
  fi
  apt-get -qq update
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y python3-venv >/dev/null
  "$python" -m venv --clear .venv
}

# A file that is there once the environment holds the lock of this name. `dev` holds `run` too.
made() { echo ".venv/made-$1-$(cat "requirements/$1.txt" pyproject.toml | sha256sum | cut -c1-16)"; }

if [ ! -e "$(made "$1")" ] && [ ! -e "$(made dev)" ]; then
  echo "Making the environment in .venv (a minute) ..."
  [ -x .venv/bin/python ] || make_venv
  pip=".venv/bin/python -m pip --quiet --disable-pip-version-check install --no-compile"
  $pip --require-hashes --requirement "requirements/$1.txt"
  $pip --no-deps --no-build-isolation --editable .
  # On all CPUs, and without Ansible's collections and tests, of which little is ever imported: a quarter of the time that
  # pip takes. Packages ship files that no Python of today reads, which is no failure.
  .venv/bin/python -m compileall -qq -j 0 -x "ansible_collections|/tests?/" .venv/lib || true
  touch "$(made "$1")"
fi
