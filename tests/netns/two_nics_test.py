#!/usr/bin/env python3
"""SL-2, T2s: two NIs of one subnet, each with a NIC of its own, and traffic that stays apart.

      namespace a                                            namespace b
      10.0.1.1@tcp   eth0 ──────┐                  ┌────── eth0   10.0.1.2@tcp
                                br0 (namespace hub)
      10.0.1.11@tcp  eth1 ──────┘                  └────── eth1   10.0.1.12@tcp

Paths: 10.0.1.1 to 10.0.1.2 and 10.0.1.11 to 10.0.1.12, with the same number of operations.
"""

import json

from lab import FULL, check, config, run

PATHS = (("10.0.1.1@tcp", "10.0.1.2@tcp"), ("10.0.1.11@tcp", "10.0.1.12@tcp"))
OPERATIONS = 10000 if FULL else 2000
DEVICES = ("eth0", "eth1")
PLAIN = {"arp_ignore": 0, "arp_announce": 0, "rp_filter": 0}  # as Linux comes
SEPARATE = {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 2}
SETTINGS = {"tcp": {"conns_per_peer": 1, "timeout": 5, "min_reconnectms": 100, "max_reconnectms": 500},
            "global_": {"transaction_timeout": 10, "retry_count": 0}}


def make_nodes(lab, *sysctls):
    """The nodes a and b; `sysctls`: one set for both, or one for each."""
    nodes = [lab.node(name, eth0=[f"10.0.1.{i}/24"], eth1=[f"10.0.1.1{i}/24"]) for i, name in enumerate("ab", 1)]
    for node, settings in zip(nodes, sysctls * (2 // len(sysctls))):
        for device in ("all", *DEVICES):
            for name, value in settings.items():
                node.sysctl(f"net.ipv4.conf.{device}.{name}", value)
    return nodes


def start_serving(lab, node):
    server = node.start("server", [lab.program("load_node"), "serve",
                                   lab.write("b.yaml", config([path[1] for path in PATHS], **SETTINGS))])
    server.wait_for_line("ready: ")
    return server


def load(lab, node, operations):
    """PUTs and GETs over both paths. The loader's report."""
    paths = [word for source, target in PATHS for word in ("--path", f"{source}={target}")]
    done = node.run([lab.program("load_node"), "load", lab.write("a.yaml", config([path[0] for path in PATHS], **SETTINGS)),
                     *paths, "--operations", str(operations), "--bytes", "1000", "--in-flight", "8"], must_succeed=False)
    check(done.returncode == 0, f"load_node: {done.stdout}{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])[0]


def all_ended_well(report):
    return all(kind["ok"] == kind["started"] for kind in report["kinds"].values())


def check_connections(report):
    """Each connection's local address is that of the NI it belongs to."""
    local_of = dict((target, source) for source, target in PATHS)
    check(len(report["node"]["peer_nis"]) == 2, f"peers: {report['node']['peer_nis']}")
    for peer in report["node"]["peer_nis"]:
        check(peer["connections"], f"no connection to {peer['nid']}")
        for local in peer["connections"]:
            check(local.startswith(local_of[peer["nid"]].partition("@")[0] + ":"), f"{peer['nid']} from {local}")


def halves(before, after):
    """Of the bytes that a node's NICs sent, the share of each."""
    sent = [now[1] - then[1] for then, now in zip(before, after)]
    return [bytes_ / sum(sent) for bytes_ in sent], sum(sent)


def check_shares(lab, nodes, judged):
    """Runs the load; each of the `judged` nodes must send by both NICs alike."""
    before = [[node.moved_bytes(device) for device in DEVICES] for node in nodes]
    report = load(lab, nodes[0], OPERATIONS)
    check(all_ended_well(report), f"not all ended well: {report['kinds']}")
    check_connections(report)
    for node, then in zip(nodes, before):
        if node not in judged:
            continue
        shares, total = halves(then, [node.moved_bytes(device) for device in DEVICES])
        check(total > OPERATIONS * 500, f"{node.name} sent {total} bytes in all")
        check(all(0.4 <= share <= 0.6 for share in shares), f"{node.name} sent these shares by {DEVICES}: {shares}")


def with_separating_settings(lab):
    nodes = make_nodes(lab, SEPARATE)
    server = start_serving(lab, nodes[1])
    check_shares(lab, nodes, nodes)
    check("not bound" not in server.output(), server.output())


def with_plain_settings(lab):
    """Each NIC answers ARP for the other's address, too: what b gets may come by the wrong NIC, as a guessed. It works
    nevertheless, and a, which dials, sends by the right one, whatever the first route says."""
    nodes = make_nodes(lab, PLAIN)
    start_serving(lab, nodes[1])
    check_shares(lab, nodes, nodes[:1])


def through_the_other_nic(lab):
    """a's ARP cache names the wrong NICs of b: b takes what comes for its addresses all the same."""
    a, b = make_nodes(lab, SEPARATE, PLAIN)
    server = start_serving(lab, b)
    for device in DEVICES:
        a.ip("neigh", "replace", "10.0.1.2", "lladdr", b.mac("eth1"), "dev", device, "nud", "permanent")
        a.ip("neigh", "replace", "10.0.1.12", "lladdr", b.mac("eth0"), "dev", device, "nud", "permanent")
    report = load(lab, a, OPERATIONS // 10)
    check(all_ended_well(report), f"not all ended well: {report['kinds']}, {report['node']}")
    check_connections(report)
    check("connects to 10.0.1.2@tcp of eth0 through eth1" in server.output(), f"no word of it: {server.output()}")


def advice_names_the_settings(lab):
    """ulnetd says which settings would let a NIC answer for the other, as lines to paste; and they help."""
    a, _ = make_nodes(lab, {**PLAIN, "rp_filter": 1})
    nids = [path[0] for path in PATHS]
    daemon = a.daemon(config(nids))
    output = daemon.output()
    check("devices eth0, eth1 are on one subnet, 10.0.1.0/24" in output, f"no advice: {output}")
    commands = [line[line.index("sysctl -w "):] for line in output.splitlines() if "sysctl -w " in line]
    wanted = [f"sysctl -w net.ipv4.conf.{device}.{name}={value}" for device in DEVICES
              for name, value in SEPARATE.items()]
    check(commands == wanted, f"advice: {commands}, wanted {wanted}")
    daemon.stop()
    for command in commands:
        name, value = command.removeprefix("sysctl -w ").split("=")
        a.sysctl(name, value)
    again = a.daemon(config(nids))
    check("on one subnet" not in again.output(), f"still advises: {again.output()}")
    one = a.daemon(config([nids[0]], port=1988))
    check("on one subnet" not in one.output(), f"advises for a single NI: {one.output()}")


run(with_separating_settings, with_plain_settings, through_the_other_nic, advice_names_the_settings)
