"""Two nodes with a rail on each of two nets, for tests and the demo.

      namespace a                                            namespace b
      10.0.1.1@tcp   eth0 ──────┐                  ┌────── eth0   10.0.1.2@tcp
                                br0 (namespace hub)
      10.0.2.1@tcp1  eth1 ──────┘                  └────── eth1   10.0.2.2@tcp1

Node b is `load_node serve`, node a `load_node load`. They find each other by discovery, or are told by `peer:`.
"""

import json
import re
import time

from lab import check, wait_until

LND_TIMEOUT_S = 3
TRANSACTION_TIMEOUT_S = 10  # LND timeout x (2 retries + 1) + 1
NIDS = {"a": ("10.0.1.1@tcp", "10.0.2.1@tcp1"), "b": ("10.0.1.2@tcp", "10.0.2.2@tcp1")}
DEVICES = ("eth0", "eth1")


def settings(own, told=False, lnd_timeout_s=LND_TIMEOUT_S, transaction_timeout=TRANSACTION_TIMEOUT_S,
             health_sensitivity=100):
    """The configuration of one node; `told`: of the other's NIDs, without discovery."""
    tunables = {"lnd tunables": {"timeout": lnd_timeout_s, "conns_per_peer": 1, "min_reconnectms": 100,
                                 "max_reconnectms": 500}}
    tree = {
        "net": [{"net type": nid.partition("@")[2], "local NI(s)": [{"nid": nid, **tunables}]} for nid in NIDS[own]],
        "global": {"transaction_timeout": transaction_timeout, "retry_count": 2, "max_recovery_ping_interval": 2,
                   "health_sensitivity": health_sensitivity, "discovery": 0 if told else 1},
        "ulnet": {"accept": "secure", "accept_port": 988},
    }
    if told:
        other = NIDS["b" if own == "a" else "a"]
        tree["peer"] = [{"primary nid": other[0], "Multi-Rail": True, "peer ni": [{"nid": nid} for nid in other]}]
    return json.dumps(tree)


def make_namespaces(lab):
    a = lab.node("a", eth0=["10.0.1.1/24"], eth1=["10.0.2.1/24"])
    b = lab.node("b", eth0=["10.0.1.2/24"], eth1=["10.0.2.2/24"])
    for node in (a, b):  # both NICs of a node hang on one bridge: each answers for its own address only
        for device in ("all", *DEVICES):
            for name, value in (("arp_ignore", 1), ("arp_announce", 2), ("rp_filter", 2)):
                node.sysctl(f"net.ipv4.conf.{device}.{name}", value)
    return a, b


def start_server(lab, b, **how):
    """`how`: of settings()."""
    server = b.start("server", [lab.program("load_node"), "serve", lab.write("b.yaml", settings("b", **how))])
    server.wait_for_line("ready: ")
    return server


def start_load(lab, a, *words, **how):
    return a.start("loader", [lab.program("load_node"), "load", lab.write("a.yaml", settings("a", **how)), "--path",
                              NIDS["b"][0], "--kinds", "put", *words])


def report_of(loader):
    return json.loads(loader.output().splitlines()[-1])[0]


def progress(loader):
    """Operations that ended well and badly so far."""
    lines = re.findall(r"^progress (\d+) (\d+)$", loader.output(), re.MULTILINE)
    return (int(lines[-1][0]), int(lines[-1][1])) if lines else (0, 0)


def shares(node, seconds):
    """Of what the node sends in this time: each device's part; nothing when it sends nothing."""
    before = [node.moved_bytes(device)[1] for device in DEVICES]
    time.sleep(seconds)
    sent = [node.moved_bytes(device)[1] - bytes_ for device, bytes_ in zip(DEVICES, before)]
    return [bytes_ / sum(sent) for bytes_ in sent] if sum(sent) > 1_000_000 else None


def cut_rail(node, silently):
    """Cuts rail eth1 at this node, whose carrier stays or goes. The time."""
    return _set_rail(node, silently, whole=False)


def mend_rail(node, silently):
    return _set_rail(node, silently, whole=True)


def _set_rail(node, silently, whole):
    if silently:
        node.set_silent("eth1", not whole)
    else:
        node.set_carrier("eth1", whole)
    return time.monotonic()


def wait_for_load(loader, operations=200):
    wait_until(lambda: progress(loader)[0] > operations, 20, "the load runs")


def received_puts(server):
    """What the server has received in all; ends it."""
    status, _ = server.stop()
    check(status == 0, f"the server ended with status {status}")
    return int(re.search(r"^received (\d+) PUTs$", server.output(), re.MULTILINE).group(1))


def stop_load(loader):
    """Waits for what is under way; the report."""
    status, _ = loader.stop(TRANSACTION_TIMEOUT_S + 10)
    check(status == 0, f"the loader ended with status {status}")
    return report_of(loader)
