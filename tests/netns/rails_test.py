#!/usr/bin/env python3
"""T2: two nodes with a rail on each of two nets, each told of the other's NIDs by `peer:`.

      namespace a                                            namespace b
      10.0.1.1@tcp   eth0 ──────┐                  ┌────── eth0   10.0.1.2@tcp
                                br0 (namespace hub)
      10.0.2.1@tcp1  eth1 ──────┘                  └────── eth1   10.0.2.2@tcp1

Healthy rails share the messages; when one is cut the traffic goes on by the other, and comes back.
"""

import json
import re
import time

from lab import check, run, wait_until

LND_TIMEOUT_S = 3
IN_FLIGHT = 32
TRANSACTION_TIMEOUT_S = 10  # LND timeout x (2 retries + 1) + 1
NIDS = {"a": ("10.0.1.1@tcp", "10.0.2.1@tcp1"), "b": ("10.0.1.2@tcp", "10.0.2.2@tcp1")}


def settings(own, other):
    tunables = {"lnd tunables": {"timeout": LND_TIMEOUT_S, "conns_per_peer": 1, "min_reconnectms": 100,
                                 "max_reconnectms": 500}}
    return json.dumps({
        "net": [{"net type": nid.partition("@")[2], "local NI(s)": [{"nid": nid, **tunables}]} for nid in NIDS[own]],
        "peer": [{"primary nid": NIDS[other][0], "Multi-Rail": True, "peer ni": [{"nid": nid} for nid in NIDS[other]]}],
        "global": {"transaction_timeout": TRANSACTION_TIMEOUT_S, "retry_count": 2, "max_recovery_ping_interval": 2},
        "ulnet": {"accept": "secure", "accept_port": 988},
    })


def make_nodes(lab):
    a = lab.node("a", eth0=["10.0.1.1/24"], eth1=["10.0.2.1/24"])
    b = lab.node("b", eth0=["10.0.1.2/24"], eth1=["10.0.2.2/24"])
    for node in (a, b):  # both NICs of a node hang on one bridge: each answers for its own address only
        for device in ("all", "eth0", "eth1"):
            for name, value in (("arp_ignore", 1), ("arp_announce", 2), ("rp_filter", 2)):
                node.sysctl(f"net.ipv4.conf.{device}.{name}", value)
    server = b.start("server", [lab.program("load_node"), "serve", lab.write("b.yaml", settings("b", "a"))])
    server.wait_for_line("ready: ")
    return a, b


def start_load(lab, node, *words):
    return node.start("loader", [lab.program("load_node"), "load", lab.write("a.yaml", settings("a", "b")), "--path",
                                 NIDS["b"][0], "--kinds", "put", *words])


def report_of(loader):
    return json.loads(loader.output().splitlines()[-1])[0]


def progress(loader):
    """Operations that ended well and badly so far."""
    lines = re.findall(r"^progress (\d+) (\d+)$", loader.output(), re.MULTILINE)
    return (int(lines[-1][0]), int(lines[-1][1])) if lines else (0, 0)


def rails_share(lab):
    """Two healthy rails carry half of the messages each."""
    a, _ = make_nodes(lab)
    loader = start_load(lab, a, "--operations", "4000", "--bytes", "1000", "--in-flight", "8")
    check(loader.wait(60) == 0, "the loader failed")
    report = report_of(loader)
    check(report["kinds"]["put"]["ok"] == 4000, f"not all ended well: {report['kinds']}")
    sent = {ni["nid"]: ni["sent_put"] for ni in report["node"]["nis"]}
    total = sum(sent.values())
    for nid in NIDS["a"]:
        check(abs(sent[nid] / total - 0.5) <= 0.02, f"shares of the rails: {sent}")


def rail_cut(lab):
    """One rail is cut under load: each operation ends once, well or by its time-out, and the load goes on at once on
    the other rail; when the rail is back both carry load."""
    a, b = make_nodes(lab)
    loader = start_load(lab, a, "--bytes", "1000000", "--in-flight", str(IN_FLIGHT))
    wait_until(lambda: progress(loader)[0] > 200, 20, "the load runs")
    b.ip("link", "set", "eth1", "down")
    cut = time.monotonic()
    before = progress(loader)[0]
    wait_until(lambda: progress(loader)[0] > before + 500, LND_TIMEOUT_S + 3, "the load goes on by the other rail")
    stalled = time.monotonic() - cut
    time.sleep(max(0, LND_TIMEOUT_S + 1 - stalled))  # the cut rail's sockets have been given up by now
    b.ip("link", "set", "eth1", "up")

    moved = a.moved_bytes("eth1")[1]
    wait_until(lambda: a.moved_bytes("eth1")[1] > moved + 50_000_000, 20, "the rail that is back carries load again")
    status, _ = loader.stop(TRANSACTION_TIMEOUT_S + 10)
    check(status == 0, f"the loader ended with status {status}")
    report = report_of(loader)
    check(not report["faults"], f"faults: {report['faults']}")
    put = report["kinds"]["put"]
    check(put["started"] == put["ok"] + sum(put["failed"].values()), f"not each ended once: {put}")
    check(set(put["failed"]) <= {"ETIMEDOUT"}, f"failures other than a lost response: {put['failed']}")
    check(sum(put["failed"].values()) <= IN_FLIGHT, f"more lost than were under way: {put['failed']}")
    for ni in report["node"]["nis"] + report["node"]["peer_nis"]:
        check(ni["credits_missing"] == 0 and ni["waiting"] == 0, f"credits are missing: {ni}")


run(rails_share, rail_cut)
