#!/usr/bin/env bash
# Two nodes that find each other, and data that arrives: first on loopback; then, as root, in two network namespaces:
#
#     namespace A                                 namespace B
#     ulnetd     10.198.0.1@tcp   veth            ulnetd     10.198.0.2@tcp       port 988, as kernel nodes use it
#     ulnet_perf 10.198.0.11@tcp ────── veth      ulnet_perf 10.198.0.12@tcp
#
# The daemons ping each other; the pair of ulnet_perf moves BYTES of PUT and BYTES of GET, and compares every byte.
# Then, as root, two nodes with two rails, one of which is cut under load (two_rails.py).
# Everything made here is gone at the end, also when interrupted.
#
# Usage: demo.sh BIN_DIR [BYTES]
set -euo pipefail
BIN=$(realpath "$1")
BYTES=${2:-$((1 << 30))}
HERE=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/support/processes.sh
source "$HERE/../support/processes.sh"

declare -A FIGURES=()  # by "SCENARIO.NAME"

# write_config FILE NID PORT POLICY
write_config() {
  cat >"$1" <<EOF
net:
  - net type: tcp
    local NI(s):
      - nid: $2
ulnet:
  accept: $4
  accept_port: $3
EOF
}

# start_daemon NAME NID PORT POLICY [PREFIX...]: an ulnetd, up when this returns.
start_daemon() {
  local name=$1 nid=$2 _
  write_config "$SCRATCH/$name.yaml" "$nid" "$3" "$4"
  start "$name" "${@:5}" "$BIN/ulnetd" --config "$SCRATCH/$name.yaml" --socket "$SCRATCH/$name.sock"
  for _ in {1..200}; do
    ! "$BIN/ulnetctl" --socket "$SCRATCH/$name.sock" net show 2>/dev/null | grep -q "nid: $nid" || return 0
    kill -0 "${PIDS[$name]}" 2>/dev/null || fail "$name ended early"
    sleep 0.05
  done
  fail "$name is not up after 10 s"
}

# ping FROM NID
ping_node() {
  "$BIN/ulnetctl" --socket "$SCRATCH/$1.sock" ping "$2" >"$SCRATCH/ping.log" 2>&1 || fail "ping from $1 to $2"
  grep -q "primary nid: $2" "$SCRATCH/ping.log" || fail "$2 answered $1 without its name"
  echo "  $1 pings $2: ok"
}

# measure SCENARIO MODE CLIENT_ARGUMENTS...: runs ulnet_perf and keeps its figures.
measure() {
  local scenario=$1 name value unit
  shift
  "$@" >"$SCRATCH/client.log" 2>&1 || fail "$scenario: $*"
  while read -r name value unit; do FIGURES[$scenario.$name]="$value $unit"; done <"$SCRATCH/client.log"
}

# run_scenario NAME PORT POLICY NID_A NID_B PERF_A PERF_B; the arrays IN_A and IN_B say where A and B run.
run_scenario() {
  local scenario=$1 port=$2 policy=$3 mode
  local nid_a=$4 nid_b=$5 perf_a=$6 perf_b=$7
  start_daemon "$scenario-A" "$nid_a" "$port" "$policy" "${IN_A[@]}"
  start_daemon "$scenario-B" "$nid_b" "$port" "$policy" "${IN_B[@]}"
  ping_node "$scenario-A" "$nid_b"
  ping_node "$scenario-B" "$nid_a"

  start "$scenario-server" "${IN_B[@]}" "$BIN/ulnet_perf" serve --nid "$perf_b" --port "$port"
  wait_for_line "$scenario-server" "ready: $perf_b"
  ping_node "$scenario-A" "$perf_b"
  for mode in verify bw get rate rtt; do
    local client=("${IN_A[@]}" timeout 60 "$BIN/ulnet_perf" "$mode" --nid "$perf_a" --port "$port" --target "$perf_b")
    measure "$scenario" "${client[@]}" --bytes "$BYTES"
  done
  stop "$scenario-server" || fail "the server found wrong bytes"
  stop "$scenario-A" || fail "ulnetd $nid_a did not end cleanly"
  stop "$scenario-B" || fail "ulnetd $nid_b did not end cleanly"
}

# Makes the namespaces and their link. False where that is not allowed.
make_namespaces() {
  local side
  [ "$(id -u)" = 0 ] || return 1
  for side in a b; do
    ip netns add "ulnet-$side-$$" 2>/dev/null || return 1
    at_exit ip netns del "ulnet-$side-$$"
    ip -n "ulnet-$side-$$" link set lo up
  done
  ip -n "ulnet-a-$$" link add veth0 type veth peer name veth0 netns "ulnet-b-$$" 2>/dev/null || return 1
  set_addresses "ulnet-a-$$" 10.198.0.1/24 10.198.0.11/24
  set_addresses "ulnet-b-$$" 10.198.0.2/24 10.198.0.12/24
}

set_addresses() {
  local namespace=$1 address
  shift
  for address in "$@"; do ip -n "$namespace" address add "$address" dev veth0; done
  ip -n "$namespace" link set veth0 up
}

print_table() {
  local row title key
  printf '\n%-28s %16s' '' loopback
  [ -z "${FIGURES[veth.rtt]-}" ] || printf ' %16s' 'veth, port 988'
  printf '\n'
  for row in 'PUT+ACK, every byte checked=verify-put' 'GET, every byte checked=verify-get' 'PUT+ACK, 1 MiB=bw' \
    'GET, 1 MiB=get' 'PUT+ACK, 64 B, 64 at a time=rate' 'PUT+ACK, 64 B, one at a time=rtt'; do
    title=${row%=*} key=${row#*=}
    printf '%-28s %16s' "$title" "${FIGURES[loopback.$key]}"
    [ -z "${FIGURES[veth.rtt]-}" ] || printf ' %16s' "${FIGURES[veth.$key]}"
    printf '\n'
  done
  printf '\n%s MiB moved and compared in each direction and place\n' $((BYTES >> 20))
}

echo "two nodes on loopback"
IN_A=() IN_B=()
run_scenario loopback 9880 all 127.0.0.2@tcp 127.0.0.3@tcp 127.0.0.4@tcp 127.0.0.5@tcp

if make_namespaces; then
  echo "two nodes in network namespaces joined by veth"
  IN_A=(ip netns exec "ulnet-a-$$") IN_B=(ip netns exec "ulnet-b-$$")
  run_scenario veth 988 secure 10.198.0.1@tcp 10.198.0.2@tcp 10.198.0.11@tcp 10.198.0.12@tcp
  print_table
  printf '\ntwo nodes with two rails in network namespaces\n'
  python3 -B "$HERE/two_rails.py" "$BIN"
else
  echo "skipped: two network namespaces (they need root and the right to make them)"
  print_table
fi
