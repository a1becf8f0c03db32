#!/bin/sh
# Installs the Corral worker @VERSION@ on this machine and joins it to the cluster at @URL@.
#
#   curl -fsSL @URL@/join | sh -s -- --token cj_...
#
# Options:
#   --token TOKEN   join token, needed the first time (`corral tokens create`)
#   --dir DIR       folder of the worker and its program (CORRAL_WORKER_HOME, else ~/.corral-worker)
#   --url URL       another address of the frontend
#   --no-start      install only, and print the command that starts the worker
# Every other option goes to `corral worker`: --name, --labels and so on.
#
# It needs Python 3.11 or newer, and a package index or mirror that pip knows. It does not need root.
# Run it again to upgrade: the program is replaced, the node and its models stay.
set -eu

fail() {
  printf 'error: %s\n' "$1" >&2
  [ $# -lt 2 ] || printf '\nhint: %s\n' "$2" >&2
  exit 1
}

find_python() {
  found=''
  for candidate in ${CORRAL_PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    command -v "$candidate" >/dev/null 2>&1 || continue
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' </dev/null 2>/dev/null; then
      python=$candidate
      return 0
    fi
    found=${found:-$candidate}
  done
  [ -n "$found" ] || fail "Python was not found on this machine; Corral needs Python 3.11 or newer." \
    "Install it (Debian: apt install python3 python3-venv; macOS: brew install python), or name one in CORRAL_PYTHON."
  fail "$found is too old; Corral needs Python 3.11 or newer." \
    "Install a newer Python and name it in CORRAL_PYTHON, such as CORRAL_PYTHON=/usr/local/bin/python3.12."
}

# fetch URL SHA256 FILE: download a file and refuse it if its hash differs.
fetch() {
  "$python" - "$@" <<'PROGRAM'
import hashlib
import http.client
import sys
import urllib.error
import urllib.request

url, expected, target = sys.argv[1:]
try:
    with urllib.request.urlopen(url, timeout=60) as response:
        body = response.read()
except urllib.error.HTTPError as error:
    sys.exit(f"error: {url} returned {error.code}.\n\nhint: The frontends may have been upgraded meanwhile. Fetch this script again.")
except (OSError, ValueError, http.client.HTTPException) as error:
    sys.exit(
        f"error: {url} cannot be reached ({error}).\n\n"
        "hint: Check that the frontend listens on that address, that no firewall closes its port, and that "
        "http_proxy and no_proxy are right. --url names another address."
    )
digest = hashlib.sha256(body).hexdigest()
if digest != expected:
    sys.exit(
        f"error: {url} is not the file that this script was made for: its sha256 is {digest}, not {expected}. "
        "Nothing was installed.\n\n"
        "hint: Fetch this script again: the frontends may have been upgraded meanwhile. If it happens again, "
        "something between this machine and the frontend changes files."
    )
with open(target, "wb") as file:
    file.write(body)
PROGRAM
}

# install FOLDER: make a virtual environment there with the locked requirements and the wheel.
install() {
  scratch=$(mktemp -d) || fail "No temporary folder can be made."
  trap 'rm -rf "$scratch"' EXIT
  trap 'exit 130' INT TERM HUP
  fetch "$url/join/requirements.txt" '@REQUIREMENTS_SHA256@' "$scratch/requirements.txt" || exit 1
  fetch "$url/join/@WHEEL@" '@WHEEL_SHA256@' "$scratch/@WHEEL@" || exit 1
  rm -rf "$1"
  "$python" -m venv "$1" </dev/null >"$scratch/venv.log" 2>&1 || {
    cat "$scratch/venv.log" >&2
    rm -rf "$1"
    fail "$python cannot make a virtual environment; its reason is above." "On Debian and Ubuntu: apt install python3-venv"
  }
  "$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --require-hashes \
    -r "$scratch/requirements.txt" </dev/null || {
    rm -rf "$1"
    fail "pip could not install what the worker needs; its reason is above." \
      "It needs a package index: PIP_INDEX_URL names a mirror, https_proxy a proxy."
  }
  "$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps --no-index \
    "$scratch/@WHEEL@" </dev/null || {
    rm -rf "$1"
    fail "pip could not install @WHEEL@; its reason is above."
  }
  : >"$1/installed"
  rm -rf "$scratch"
  trap - EXIT INT TERM HUP
}

# Keep the program of now and the one before; a worker that still runs may be that one.
remove_old_programs() {
  for folder in "$dir"/program/*; do
    case $folder in
    "$dir/program/current" | "$program" | "$previous") ;;
    *) rm -rf "$folder" ;;
    esac
  done
}

main() {
  url='@URL@' token='' starts=yes dir=${CORRAL_WORKER_HOME:-${HOME:-}/.corral-worker} listens='@OPEN_FLAGS@'
  left=$#
  while [ "$left" -gt 0 ]; do
    option=$1
    shift
    left=$((left - 1))
    case $option in
    --token | --dir | --url)
      [ "$left" -gt 0 ] || fail "$option needs a value."
      case $option in
      --token) token=$1 ;;
      --dir) dir=$1 ;;
      --url) url=${1%/} ;;
      esac
      shift
      left=$((left - 1))
      ;;
    --no-start) starts=no ;;
    *) set -- "$@" "$option" ;;
    esac
  done
  case $dir in
  /*) ;;
  *) dir=$PWD/$dir ;;
  esac

  find_python
  umask 077
  mkdir -p "$dir/program" || fail "$dir cannot be made." "--dir names another folder."
  program=$dir/program/$(printf %.12s '@WHEEL_SHA256@')
  previous=$(readlink "$dir/program/current" || :)
  if [ ! -f "$program/installed" ]; then
    printf 'Installing the Corral worker @VERSION@ into %s\n' "$program" >&2
    install "$program"
  fi
  ln -sfn "$program" "$dir/program/current"
  remove_old_programs
  if [ -n "$token" ]; then
    printf '%s\n' "$token" >"$dir/join-token"
  fi

  # shellcheck disable=SC2086 # several words, or none; what the caller says comes later and wins
  set -- worker --join "$url" --worker-home "$dir" $listens "$@"
  if [ -f "$dir/join-token" ]; then
    set -- "$@" --token-file "$dir/join-token"
  fi
  if [ "$starts" = no ]; then
    printf 'Installed. This starts the worker:\n\n' >&2
    printf '%s' "$dir/program/current/bin/corral"
    for word in "$@"; do
      printf " '%s'" "$(printf %s "$word" | sed "s/'/'\\\\''/g")"
    done
    printf '\n'
    return 0
  fi
  printf 'Starting the worker. It runs until Ctrl-C; the cluster may have to approve it: corral nodes approve NODE\n' >&2
  exec "$dir/program/current/bin/corral" "$@" </dev/null
}

main "$@"
