"""Captures a device of a namespace and puts the TCP streams together again."""

import ctypes
import os
import socket
import struct
import threading

_ETH_P_ALL = 3
_CLONE_NEWNET = 0x40000000
_SO_RCVBUFFORCE = 33
_SYN = 0x02


def enter_namespace(name):
    """A namespace is a property of the thread: what this one opens from now on is in there."""
    libc = ctypes.CDLL(None, use_errno=True)
    namespace = os.open(f"/var/run/netns/{name}", os.O_RDONLY)
    try:
        if libc.setns(namespace, _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(namespace)


class Capture:
    """Captures what passes the device while the `with` block runs."""

    def __init__(self, namespace, device):
        self._namespace = namespace
        self._device = device
        self._packets = []
        self._ready = threading.Event()
        self._stop = threading.Event()
        self._failure = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        self._ready.wait()
        if self._failure:
            raise self._failure
        return self

    def __exit__(self, kind, value, traceback):
        self._stop.set()
        self._thread.join()

    def _run(self):
        try:
            packets = self._open()
        except OSError as failure:
            self._failure = failure
            return
        finally:
            self._ready.set()
        with packets:
            while not self._stop.is_set():
                try:
                    self._packets.append(packets.recv(1 << 17))
                except TimeoutError:
                    pass

    # A socket stays in the namespace where it was made.
    def _open(self):
        enter_namespace(self._namespace)
        packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        packets.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 64 << 20)
        packets.bind((self._device, 0))
        packets.settimeout(0.1)
        return packets

    def packets_from(self, address):
        """How many TCP packets with this source have passed so far."""
        return sum(1 for parsed in map(_parse, list(self._packets)) if parsed and parsed[0].startswith(f"{address}:"))

    def streams(self):
        """What each end of each connection sent, by "SOURCE:PORT - DESTINATION:PORT (START)"; cut at a gap."""
        starts, segments = {}, {}
        for packet in self._packets:
            parsed = _parse(packet)
            if parsed is None:
                continue
            ends, sequence, flags, payload = parsed
            if flags & _SYN:
                starts[ends] = (sequence + 1) & 0xFFFFFFFF
            if payload and ends in starts:
                segments.setdefault((ends, starts[ends]), []).append(((sequence - starts[ends]) & 0xFFFFFFFF, payload))
        return {f"{ends} ({start})": _join(parts) for (ends, start), parts in segments.items()}


def _join(parts):
    stream = b""
    for offset, payload in sorted(parts):
        if offset > len(stream):
            break
        stream += payload[len(stream) - offset:]
    return stream


def _parse(packet):
    (ether_type,) = struct.unpack_from("!H", packet, 12)
    if ether_type == 0x0800 and packet[23] == socket.IPPROTO_TCP:
        tcp = 14 + (packet[14] & 15) * 4
        (length,) = struct.unpack_from("!H", packet, 16)
        end = 14 + length
        source, destination = (socket.inet_ntop(socket.AF_INET, packet[at:at + 4]) for at in (26, 30))
    elif ether_type == 0x86DD and packet[20] == socket.IPPROTO_TCP:
        tcp = 14 + 40
        (length,) = struct.unpack_from("!H", packet, 18)
        end = tcp + length
        source, destination = (socket.inet_ntop(socket.AF_INET6, packet[at:at + 16]) for at in (22, 38))
    else:
        return None
    source_port, destination_port, sequence = struct.unpack_from("!HHI", packet, tcp)
    payload = packet[tcp + (packet[tcp + 12] >> 4) * 4:end]
    return f"{source}:{source_port} - {destination}:{destination_port}", sequence, packet[tcp + 13], payload
