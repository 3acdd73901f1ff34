#!/usr/bin/env python3
"""SE-2: nothing that a node sends is uninitialised. Its allocations are filled with a poison, all that leaves is captured,
every unused field must be zero, and nothing may look like the poison.

      namespace a                                            namespace b
      load_node load, then ulnetd                            load_node serve
      10.0.1.1@tcp, fd00::1@tcp                              10.0.1.2@tcp, fd00::2@tcp
              eth0 ──────── port1, captured here, br0 (namespace hub) ──────── eth0

Layouts: connect request, HELLO and frame of socklnd; LNet header with NIDs of 8 and of 20 bytes.
"""

import os
import re
import struct
import sys
import time

from capture import Capture
from lab import check, config, run

FRESH, FREED = 0x5A, 0xA5  # glibc fills new memory with the complement of what it fills freed memory with
POISONED = {**os.environ, "GLIBC_TUNABLES": f"glibc.malloc.perturb={FREED}"}
RUNS = (bytes([FRESH]) * 8, bytes([FREED]) * 8)
SETTINGS = {"accept": "all", "tcp": {"keepalive": 1, "conns_per_peer": 1}}

ACCEPTOR_MAGIC, HELLO_MAGIC = 0xACCE7100, 0x45726963
NOOP, LNET = 0xC0, 0xC1
PID = 12345
PING_MATCH_BITS = 1 << 63
TYPES = ("ACK", "PUT", "GET", "REPLY")
USED = {"ACK": 28, "PUT": 40, "GET": 36, "REPLY": 16}  # bytes of the 40 that belong to the type


class Reader:
    """Takes a stream apart and notes what it holds, in `seen`, and what is wrong with it, in `wrong`."""

    def __init__(self, stream, seen, wrong):
        self._stream = stream
        self._at = 0
        self._seen = seen
        self._wrong = wrong

    def _take(self, size):
        self._at += size
        return self._stream[self._at - size:self._at]

    def _left(self):
        return len(self._stream) - self._at

    def _expect(self, value, wanted, what):
        if value != wanted:
            self._wrong.append(f"{what}: {value!r}, not {wanted!r}, before byte {self._at}")

    def _zero(self, data, what):
        self._expect(bytes(data), bytes(len(data)), what)

    def read(self):
        large = False
        while self._left() >= 8:
            magic, version = struct.unpack_from("<II", self._stream, self._at)
            if magic == ACCEPTOR_MAGIC:
                self._read_request(version)
            elif magic == HELLO_MAGIC:
                large = version == 4
                self._read_hello(version)
            elif not self._read_frame(large):
                return

    def _read_request(self, version):
        nid = self._take(16 if version == 1 else 28)[8:]
        kind = "refusal" if not any(nid) else f"request {version}"
        self._seen.add(kind)
        if version == 1:
            self._expect(nid[7], 0, "top byte of a NID")

    def _read_hello(self, version):
        hello = self._take(80 if version == 4 else 56)
        self._seen.add(f"HELLO {version}")
        tail = hello[-32:]
        source_pid, dest_pid = struct.unpack_from("<II", tail, 0)
        self._expect(source_pid, PID, "source pid of a HELLO")
        if dest_pid not in (0, PID, PID | 1 << 31):
            self._wrong.append(f"destination pid of a HELLO: {dest_pid}")
        connection_type, addresses = struct.unpack_from("<II", tail, 24)
        if connection_type not in (1, 2, 3, 0xFFFFFFFF):
            self._wrong.append(f"type of a HELLO: {connection_type}")
        self._expect(addresses, 0, "number of addresses in a HELLO")

    def _read_frame(self, large):
        """False where the stream ends within the frame."""
        header_bytes = 96 if large else 72
        if self._left() < 24:
            return False
        frame_type, checksum, cookie0, cookie1 = struct.unpack("<IIQQ", self._take(24))
        self._expect((checksum, cookie0), (0, 0), "checksum and cookie of a frame")
        if frame_type == NOOP:
            self._seen.add("NOOP")
            self._expect(cookie1, 1, "cookie of a keepalive")
            return True
        self._expect((frame_type, cookie1), (LNET, 0), "type and cookie of a frame")
        if frame_type != LNET or self._left() < header_bytes:
            return False
        return self._read_header(self._take(header_bytes), large)

    def _read_header(self, header, large):
        dest_pid, source_pid, number, length = struct.unpack_from("<IIII", header, len(header) - 56)
        self._expect(source_pid, PID, "source pid of a message")
        self._expect(dest_pid & ~(1 << 31), PID, "destination pid of a message")
        if number >= len(TYPES) or length > 1 << 20:
            self._wrong.append(f"message of type {number} with {length} bytes")
            return False
        kind = TYPES[number]
        self._seen.add(f"{kind} {'NID16' if large else 'NID4'}")
        part = header[-40:]
        self._zero(part[USED[kind]:], f"unused bytes of {kind}")
        if kind != "REPLY":
            (match_bits,) = struct.unpack_from("<Q", part, 16)
            self._expect(match_bits & ~PING_MATCH_BITS, 0, f"match bits of {kind}")
        if kind == "PUT":
            portal = 0 if match_bits == PING_MATCH_BITS else 40  # a push, or the load
            self._expect(struct.unpack_from("<QII", part, 24), (0, portal, 0), "hdr_data, portal and offset of PUT")
        if kind in ("ACK", "GET"):
            self._expect(length, 0, f"payload bytes of {kind}")
        if self._left() < length:
            return False
        self._take(length)
        return True


def judge(streams):
    seen, wrong = set(), []
    for name, stream in streams.items():
        faults = []
        Reader(stream, seen, faults).read()
        faults += [f"poison at byte {stream.index(run_)}" for run_ in RUNS if run_ in stream]
        wrong += [f"{name}: {fault}" for fault in faults]
    return seen, wrong


def check_poisoned(process):
    """The heap of the process does hold the poison."""
    with open(f"/proc/{process.pid}/maps", encoding="utf-8") as maps:
        low, high = re.search(r"^(\w+)-(\w+) .*\[heap\]$", maps.read(), re.MULTILINE).groups()
    with open(f"/proc/{process.pid}/mem", "rb") as memory:
        memory.seek(int(low, 16))
        heap = memory.read(int(high, 16) - int(low, 16))
    check(any(run_ in heap for run_ in RUNS), f"{process.name} does not poison its memory")


# Speaks to an acceptor in versions that do not exist; prints how many bytes come back each time.
STRANGER = """
import socket, struct, sys
for bytes_ in (struct.pack("<IIQ", 0xACCE7100, 99, 0),
               struct.pack("<IIQ", 0xACCE7100, 1, 2 << 48 | 0x0A000102) + struct.pack("<II", 0x45726963, 99) + bytes(48)):
    with socket.create_connection(("10.0.1.2", 988)) as stream:
        stream.sendall(bytes_)
        stream.settimeout(5)
        print(len(stream.recv(4096)))
"""


def nothing_uninitialised_leaves(lab):
    a = lab.node("a", eth0=["10.0.1.1/24", "fd00::1/64"])
    b = lab.node("b", eth0=["10.0.1.2/24", "fd00::2/64"])
    ours = lab.write("a.yaml", config(["10.0.1.1@tcp", "fd00::1@tcp"], **SETTINGS))
    theirs = lab.write("b.yaml", config(["10.0.1.2@tcp", "fd00::2@tcp"], **SETTINGS))
    with Capture(lab.hub, "port1") as capture:
        server = b.start("server", [lab.program("load_node"), "serve", theirs], env=POISONED)
        server.wait_for_line("ready: ")
        loader = a.start("loader", [lab.program("load_node"), "load", ours, "--path", "10.0.1.2@tcp", "--path",
                                    "fd00::2@tcp", "--kinds", "put,get,ping", "--operations", "60", "--in-flight", "4",
                                    "--bytes", "3000"], env=POISONED)
        check(loader.wait(20) == 0, "the loader saw a fault")
        daemon = a.start_daemon(config(["10.0.1.1@tcp", "fd00::1@tcp"], **SETTINGS), env=POISONED)
        daemon.wait_for_line("is up: ")
        daemon.ping("10.0.1.2@tcp")
        daemon.ping("fd00::2@tcp")
        time.sleep(2.5)  # long enough for keepalives
        for process in (server, daemon):
            check_poisoned(process)
        sizes = a.run([sys.executable, "-c", STRANGER]).stdout.split()
        check(len(sizes) == 2 and "0" not in sizes, f"a stranger was answered with {sizes} bytes")
        for process in (daemon, server):
            check(process.stop()[0] == 0, f"{process.name} did not end well")
    # The stranger's own bytes are not ours to judge.
    streams = {name: stream for name, stream in capture.streams().items() if b"\x63\x00\x00\x00" not in stream[4:28]}
    seen, wrong = judge(streams)
    check(not wrong, "\n".join(wrong[:20]))
    wanted = {"request 1", "request 2", "refusal", "HELLO 3", "HELLO 4", "NOOP",
              *(f"{kind} {form}" for kind in TYPES for form in ("NID4", "NID16"))}
    check(wanted <= seen, f"not captured: {sorted(wanted - seen)}")


def the_check_can_fail(_):
    """A message whose unused bytes are poison, and one whose match bits are, are found."""
    frame = struct.pack("<IIQQ", LNET, 0, 0, 0)
    header = struct.pack("<QQIIII", 2 << 48 | 1, 2 << 48 | 2, PID, PID, 3, 0)
    clean = frame + header + bytes(40)
    check(judge({"clean": clean}) == ({"REPLY NID4"}, []), f"a clean message: {judge({'clean': clean})}")
    check(judge({"tail": clean[:-4] + bytes([FREED] * 4)})[1], "poison in unused bytes is not seen")
    check(judge({"run": clean[:-30] + bytes([FRESH] * 8) + clean[-22:]})[1], "a run of poison is not seen")


run(the_check_can_fail, nothing_uninitialised_leaves)
