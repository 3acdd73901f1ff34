#!/usr/bin/env python3
"""kill -9 of one node under load, again and again: the other ends each operation once, keeps its books, and reconnects.

      namespace a                                              namespace b
      load_node load   10.0.1.1@tcp                            load_node serve   10.0.1.2@tcp
      PUT+ACK and GET, 16 in flight                            killed and started again
              eth0 ───────────────── br0 (namespace hub) ───────────────── eth0

With a tree built with -fsanitize=address as second argument, the loading side runs from there, too.
"""

import json
import re
import time

from lab import FULL, check, config, run, sanitized, wait_until

TRANSACTION_TIMEOUT_S = 3
RECONNECT_MAX_MS = 1000
KILLS = 20 if FULL else 3
# The longest wait between two dials with its random quarter, a dial, and room for a machine that is busy.
BACK_AFTER_S = 1.25 * RECONNECT_MAX_MS / 1000 + 3
SETTINGS = {
    "global_": {"transaction_timeout": TRANSACTION_TIMEOUT_S, "retry_count": 0},
    "tcp": {"min_reconnectms": 100, "max_reconnectms": RECONNECT_MAX_MS, "timeout": 2, "conns_per_peer": 2},
}


def progress(loader):
    """Operations that ended well and badly so far."""
    lines = re.findall(r"^progress (\d+) (\d+)$", loader.output(), re.MULTILINE)
    return (int(lines[-1][0]), int(lines[-1][1])) if lines else (0, 0)


def wait_for_work(loader, timeout_s, when):
    before = progress(loader)[0]
    wait_until(lambda: progress(loader)[0] > before + 50 or not loader.running(), timeout_s, f"operations end {when}")
    check(loader.running(), f"the loader ended {when}")


def check_books(report):
    """Every operation has ended once, by the loader's book and by the node's."""
    check(not report["faults"], f"faults: {report['faults']}")
    for kind, tally in report["kinds"].items():
        ended = tally["ok"] + sum(tally["failed"].values())
        check(tally["started"] == ended, f"{kind}: {tally['started']} started, {ended} ended")
    node = report["node"]
    check(node["msgs_alloc"] == 0 and node["rst_alloc"] == 0, f"still held: {node}")
    for ni in node["nis"] + node["peer_nis"]:
        check(ni["credits_missing"] == 0 and ni["waiting"] == 0, f"credits are missing: {ni}")
    for kind, response in (("put", "ack"), ("get", "reply")):
        tally = report["kinds"][kind]
        sent = sum(ni[f"sent_{kind}"] for ni in node["nis"])
        received = sum(ni[f"received_{response}"] for ni in node["nis"])
        # A send that ends after its operation was given up is told as ETIMEDOUT, and has been sent all the same.
        late = tally["failed"].get("ETIMEDOUT", 0)
        check(tally["sent"] <= sent <= tally["sent"] + late, f"{kind}: {tally['sent']} told as sent, {sent} counted")
        check(tally["ok"] <= received <= tally["ok"] + late, f"{kind}: {tally['ok']} ok, {received} {response} received")


def kill_under_load(lab, loader_command):
    a = lab.node("a", eth0=["10.0.1.1/24"])
    b = lab.node("b", eth0=["10.0.1.2/24"])
    ours = lab.write("a.yaml", config(["10.0.1.1@tcp"], **SETTINGS))
    theirs = lab.write("b.yaml", config(["10.0.1.2@tcp"], **SETTINGS))

    def start_target(life):
        target = b.start(f"target{life}", [lab.program("load_node"), "serve", theirs])
        target.wait_for_line("ready: ")
        return target

    target = start_target(0)
    loader = a.start("loader", [*loader_command, "load", ours, "--path", "10.0.1.2@tcp", "--in-flight", "16", "--bytes",
                                "20000"])
    for life in range(1, KILLS + 1):
        wait_for_work(loader, 20, f"in life {life} of the target")
        failed = progress(loader)[1]
        target.kill()
        wait_until(lambda: progress(loader)[1] > failed, TRANSACTION_TIMEOUT_S + 3, "operations fail after the kill")
        time.sleep(0.5 * min(life, 4))  # later deaths last longer, so that the back-off grows
        target = start_target(life)
        wait_for_work(loader, BACK_AFTER_S, f"after return {life} of the target")
    status, _ = loader.stop(TRANSACTION_TIMEOUT_S + 20)
    check(status == 0, f"the loader ended with status {status}")
    report = json.loads(loader.output().splitlines()[-1])[0]
    check_books(report)
    check(report["longest_ms"] < (TRANSACTION_TIMEOUT_S + 2) * 1000, f"an operation took {report['longest_ms']} ms")
    status, _ = target.stop()
    check(status == 0, f"the target ended with status {status}")


def plain(lab):
    kill_under_load(lab, [lab.program("load_node")])


def with_address_sanitizer(lab):
    """No leak either: it ends with status 0."""
    kill_under_load(lab, sanitized(lab, "load_node"))


run(plain, with_address_sanitizer)
