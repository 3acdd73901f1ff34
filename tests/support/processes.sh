# shellcheck shell=bash
# Sourced by scripts that run nodes: a scratch directory, and background programs that end with the script, however that
# ends. Only what was started here is ended, by its pid.
#
#   start NAME COMMAND...     runs COMMAND in the background, output to $SCRATCH/NAME.log; its pid is in ${PIDS[NAME]}
#   wait_for_line NAME TEXT   waits until that log has TEXT, at most 10 s
#   stop NAME                 SIGTERM, and waits for the end; gives its exit status
#   at_exit COMMAND...        runs COMMAND when the script ends, last one first, after the programs

SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/ulnet.XXXXXX")
declare -A PIDS=()
AT_EXIT=()

start() {
  local name=$1
  shift
  "$@" >"$SCRATCH/$name.log" 2>&1 &
  PIDS[$name]=$!
}

fail() {
  printf 'FAILED: %s\n' "$*" >&2
  local log
  for log in "$SCRATCH"/*.log; do
    [ ! -s "$log" ] || { printf -- '--- %s\n' "${log##*/}" && tail -n 20 "$log"; } >&2
  done
  exit 1
}

wait_for_line() {
  local _
  for _ in {1..200}; do
    ! grep -qs -e "$2" "$SCRATCH/$1.log" || return 0
    kill -0 "${PIDS[$1]}" 2>/dev/null || fail "$1 ended early"
    sleep 0.05
  done
  fail "$1 did not print '$2' in 10 s"
}

stop() {
  local pid=${PIDS[$1]} status=0
  unset "PIDS[$1]"
  kill "$pid" 2>/dev/null || true
  wait "$pid" || status=$?
  return "$status"
}

at_exit() { AT_EXIT+=("$(printf '%q ' "$@")"); }

clean_up() {
  local name i
  for name in "${!PIDS[@]}"; do stop "$name" || true; done
  for ((i = ${#AT_EXIT[@]} - 1; i >= 0; --i)); do eval "${AT_EXIT[i]}" || true; done
  rm -rf "$SCRATCH"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
