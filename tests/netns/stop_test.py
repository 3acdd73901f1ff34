#!/usr/bin/env python3
"""SE-5: nodes that stop under load, again and again, while their peers carry on; and starts that fail halfway.

      namespace a: 20 loaders and 4 that park messages                       namespace b
      10.0.1.101@tcp ... 10.0.1.124@tcp                                      10.0.1.2@tcp: ulnetd, or load_node serve
              eth0 ───────────────────── br0 (namespace hub) ───────────────────── eth0

20 stops of each kind; with ULNET_FULL=1 500. With a tree built with -fsanitize=address as second argument, a quarter
of them again with the target from there.
"""

import json
import os
import re

from lab import FULL, check, config, run, sanitized, wait_until

STOPS = 500 if FULL else 20
STOP_S = 5
LOADERS = 20
PARKERS = 4
SETTINGS = {"tcp": {"min_reconnectms": 50, "max_reconnectms": 200, "timeout": 1, "conns_per_peer": 1},
            "global_": {"transaction_timeout": 2, "retry_count": 0}, "log_level": "off"}
TARGET = "10.0.1.2@tcp"


def make_nodes(lab):
    a = lab.node("a", eth0=[f"10.0.1.{101 + i}/24" for i in range(LOADERS + PARKERS)])
    return a, lab.node("b", eth0=["10.0.1.2/24"])


def start_loaders(lab, node, first, count, *words, in_flight=4):
    """`count` nodes in one process, each with an NI of its own; they never stop by themselves."""
    configs = [lab.write(f"loader{i}.yaml", config([f"10.0.1.{101 + i}@tcp"], **SETTINGS))
               for i in range(first, first + count)]
    return node.start(f"loaders{first}", [lab.program("load_node"), "load", *configs, "--path", TARGET,
                                          "--in-flight", str(in_flight), "--bytes", "2000", *words])


def operations(loaders):
    lines = re.findall(r"^progress (\d+) \d+$", loaders.output(), re.MULTILINE)
    return int(lines[-1]) if lines else 0


def wait_for_work(loaders, when):
    """Until the loaders have ended some operations since now, so that the stop to come hits them in full swing."""
    before = operations(loaders)
    wait_until(lambda: operations(loaders) > before + 10 * LOADERS or not loaders.running(), 15, f"load {when}")
    check(loaders.running(), f"the loaders ended {when}")


def end_loaders(loaders):
    """They have carried on through all the stops, and have lost no operation."""
    status, _ = loaders.stop(20)
    reports = json.loads(loaders.output().splitlines()[-1])
    faults = [report["faults"] for report in reports if report["faults"]]
    check(status == 0 and not faults, f"status {status}, faults {faults}")
    for report in reports:
        node = report["node"]
        check(node["msgs_alloc"] == 0 and node["rst_alloc"] == 0, f"still held: {node}")
        for ni in node["nis"] + node["peer_nis"]:
            check(ni["credits_missing"] == 0 and ni["waiting"] == 0, f"credits are missing: {ni}")


def check_stopped(number, result):
    status, took = result
    check(status == 0, f"stop {number}: status {status}")
    return took


def stop_targets(lab, target_command, stops):
    """A node with memory, and with messages parked on a lazy portal whose memory never comes."""
    a, b = make_nodes(lab)
    text = lab.write("target.yaml", config([TARGET], **SETTINGS))
    loaders = start_loaders(lab, a, 0, LOADERS)
    parkers = start_loaders(lab, a, LOADERS, PARKERS, "--kinds", "parked", in_flight=8)
    slowest = 0
    held = []
    for number in range(1, stops + 1):
        target = b.start("target", [*target_command, "serve", text])
        target.wait_for_line("ready: ")
        wait_for_work(loaders, f"before stop {number}")
        slowest = max(slowest, check_stopped(number, target.stop(STOP_S)))
        held.append(int(re.findall(r"stopping with (\d+) messages", target.output())[-1]))
        target.discard()
    check(sum(held) > stops, f"hardly a message was parked at the stops: {held}")
    for each in (loaders, parkers):
        end_loaders(each)
    print(f"  {stops} stops, the slowest {slowest:.2f} s; {min(held)} to {max(held)} messages held")


def target_stops(lab):
    stop_targets(lab, [lab.program("load_node")], STOPS)


def target_stops_with_address_sanitizer(lab):
    """No leak either: it ends with status 0."""
    stop_targets(lab, sanitized(lab, "load_node"), STOPS // 4)


def daemon_stops(lab):
    """ulnetd under pings."""
    a, b = make_nodes(lab)
    loaders = start_loaders(lab, a, 0, LOADERS, "--kinds", "ping")
    slowest = 0
    for number in range(1, STOPS + 1):
        daemon = b.daemon(config([TARGET], **{**SETTINGS, "log_level": "info"}), "daemon")
        wait_for_work(loaders, f"before stop {number}")
        slowest = max(slowest, check_stopped(number, daemon.stop(STOP_S)))
        check(not os.path.exists(daemon.socket), f"stop {number} left the control socket")
        daemon.discard()
    end_loaders(loaders)
    print(f"  {STOPS} stops, the slowest {slowest:.2f} s")


def failed_start(node, text, words):
    daemon = node.start_daemon(text, "halfway")
    status = daemon.wait(5)
    check(status == 3, f"status {status} of a start that cannot succeed: {daemon.output()}")
    for word in words:
        check(word in daemon.output(), f"{word!r} is not named: {daemon.output()}")
    check(not os.path.exists(daemon.socket), "the control socket stayed")
    daemon.discard()


def failed_start_leaves_nothing(lab):
    """The second NI's port is taken, or its interface is missing: the first NI goes, too, and nothing stays."""
    b = lab.node("b", eth0=["10.0.1.2/24", "10.0.1.12/24"])
    other = b.daemon(config(["10.0.1.12@tcp"]))
    sockets = b.sockets("all")
    check(len(sockets) == 1, f"the other daemon listens once, but: {sockets}")
    failed_start(b, config([TARGET, "10.0.1.12@tcp"]), ["10.0.1.12:988", "in use"])
    failed_start(b, config([TARGET, "eth7"], wait_for_interfaces=False), ["eth7"])
    failed_start(b, config([TARGET, "10.0.1.77@tcp"], wait_for_interfaces=False), ["10.0.1.77@tcp"])
    check(b.sockets("all") == sockets, f"sockets before: {sockets}, after: {b.sockets('all')}")
    daemon = b.daemon(config([TARGET]))
    daemon.ping("10.0.1.12@tcp")
    other.ping(TARGET)


run(target_stops, target_stops_with_address_sanitizer, daemon_stops, failed_start_leaves_nothing)
