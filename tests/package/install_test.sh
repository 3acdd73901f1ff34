#!/usr/bin/env bash
# Installs the package to a scratch prefix, builds the examples against it as a user would, by find_package and by
# pkg-config, and lets them talk over loopback.
#
# Usage: install_test.sh SOURCE_DIR BUILD_DIR CXX
set -euo pipefail
source_dir=$1 build_dir=$2 cxx=$3
# shellcheck source=tests/support/processes.sh
source "$source_dir/tests/support/processes.sh"

PREFIX=$SCRATCH/prefix
PORT=9881

check_installed_files() {
  local file
  for file in include/ulnet/endpoint.h bin/ulnetctl sbin/ulnetd lib/systemd/system/ulnetd.service \
    lib/sysusers.d/ulnet.conf share/doc/ulnet/ulnet.yaml share/doc/ulnet/LICENSE; do
    [ -s "$PREFIX/$file" ] || fail "not installed: $file"
  done
}

# The library shows its public API and nothing of what is inside.
check_symbols() {
  local symbols
  symbols=$(nm -DC --defined-only "$(find "$PREFIX" -name libulnet.so.0)")
  grep -q 'ulnet::Endpoint::start(' <<<"$symbols" || fail "Endpoint::start is not visible"
  ! grep -E ' [TDBVWu] ' <<<"$symbols" | grep -vE 'ulnet::|ULNET_0$' || fail "foreign symbols are visible"
  ! grep -E 'ulnet::(core|tcp|Engine|TcpLnd|Loop|Endpoint::Impl)(::|$)' <<<"$symbols" || fail "inner symbols are visible"
}

build_by_cmake() {
  cmake -S "$source_dir/examples" -B "$SCRATCH/by-cmake" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" \
    -DCMAKE_PREFIX_PATH="$PREFIX" >"$SCRATCH/cmake.log" 2>&1 || fail "find_package(ulnet)"
  cmake --build "$SCRATCH/by-cmake" >"$SCRATCH/cmake.log" 2>&1 || fail "building by find_package"
}

build_by_pkg_config() {
  local example flags libs
  PKG_CONFIG_PATH=$(dirname "$(find "$PREFIX" -name ulnet.pc)")
  export PKG_CONFIG_PATH
  flags=$(pkg-config --cflags ulnet)
  libs=$(pkg-config --libs ulnet)
  mkdir "$SCRATCH/by-pkg-config"
  for example in ulnet_target ulnet_initiator; do
    # shellcheck disable=SC2086  # flags are words
    "$cxx" -std=c++20 $flags -o "$SCRATCH/by-pkg-config/$example" "$source_dir/examples/$example.cc" $libs ||
      fail "building by pkg-config"
  done
}

# run_pair DIR: the two programs against each other; the initiator compares what comes back.
run_pair() {
  LD_LIBRARY_PATH=$(dirname "$(find "$PREFIX" -name libulnet.so.0)")
  export LD_LIBRARY_PATH
  start target "$1/ulnet_target" 127.0.0.2@tcp "$PORT"
  wait_for_line target 'ready: 127.0.0.2@tcp'
  timeout 30 "$1/ulnet_initiator" 127.0.0.3@tcp 127.0.0.2@tcp "$PORT" >"$SCRATCH/initiator.log" 2>&1 ||
    fail "ulnet_initiator of $1"
  cat "$SCRATCH/initiator.log"
  grep -q '^PUT: 1048576 of 1048576 bytes acknowledged$' "$SCRATCH/initiator.log" || fail "no whole PUT"
  grep -q 'GET: 1048576 bytes, equal' "$SCRATCH/initiator.log" || fail "no verified GET"
  wait_for_line target 'PUT of 1048576 bytes at offset 0 from .*127.0.0.3@tcp, hdr_data 42'
  wait_for_line target 'GET of 1048576 bytes'
  stop target || fail "ulnet_target did not end cleanly"
}

cmake --install "$build_dir" --prefix "$PREFIX" >"$SCRATCH/install.log" 2>&1 || fail "cmake --install"
check_installed_files
check_symbols
build_by_cmake
run_pair "$SCRATCH/by-cmake"
build_by_pkg_config
run_pair "$SCRATCH/by-pkg-config"
echo "installed package works by find_package and by pkg-config"
