#!/usr/bin/env python3
"""SEL-1 and SEL-3, T2s: which of two NIs of one net a message leaves by, and which of the peer's it goes to.

      namespace a                                            namespace b
      10.0.1.1@tcp   eth0 ──────┐                  ┌────── eth0   10.0.1.2@tcp
                                br0 (namespace hub)
      10.0.1.11@tcp  eth1 ──────┘                  └────── eth1   10.0.1.12@tcp
"""

import json
import shutil

from lab import CaseSkipped, check, config, run

SOURCES = ["10.0.1.1@tcp", "10.0.1.11@tcp"]
TARGETS = ["10.0.1.2@tcp", "10.0.1.12@tcp"]
PAIRS = [(source, target) for source in SOURCES for target in TARGETS]
BLOCKED = PAIRS[1]
PINGS = 3
MESSAGES = 3000
# Nothing but what a test asks for is sent: no discovery.
SETTINGS = {"tcp": {"conns_per_peer": 1, "timeout": 5, "min_reconnectms": 100, "max_reconnectms": 500},
            "global_": {"transaction_timeout": 16, "retry_count": 2, "discovery": 0}}


def make_nodes(lab):
    nodes = [lab.node(name, eth0=[f"10.0.1.{i}/24"], eth1=[f"10.0.1.1{i}/24"]) for i, name in enumerate("ab", 1)]
    for node in nodes:  # both NICs of a node hang on one bridge: each answers for its own address only
        for device in ("all", "eth0", "eth1"):
            for name, value in (("arp_ignore", 1), ("arp_announce", 2), ("rp_filter", 2)):
                node.sysctl(f"net.ipv4.conf.{device}.{name}", value)
    return nodes


def pings_sent(a, b):
    """How many GETs a has sent by each of its NIs and to each of b's, and b has received by each."""
    sent = {nid: a.ni(nid)["sent_stats"]["get"] for nid in SOURCES}
    for peer in a.ctl("peer", "show", "-v", "4")["peer"]:
        sent.update({ni["nid"]: ni["sent_stats"]["get"] for ni in peer["peer ni"]})
    return sent, {nid: b.ni(nid)["received_stats"]["get"] for nid in TARGETS}


def pair_is_chosen(lab):
    """A ping from a given NI to a given NID uses exactly that pair; with one pair blocked only that pair fails."""
    nodes = make_nodes(lab)
    a = nodes[0].daemon(config(SOURCES, peers=[TARGETS], **SETTINGS))
    b = nodes[1].daemon(config(TARGETS, peers=[SOURCES], **SETTINGS))
    sent, received = pings_sent(a, b)
    for pair in PAIRS:
        for _ in range(PINGS):
            a.ping(pair[1], "--source", pair[0])
        for nid in pair:
            sent[nid] += PINGS
        received[pair[1]] += PINGS
        check(pings_sent(a, b) == (sent, received), f"{pair}: {pings_sent(a, b)} instead of {(sent, received)}")

    block(nodes[1], *(nid.partition("@")[0] for nid in BLOCKED))
    for pair in PAIRS:
        done = a.ctl_run("ping", "--timeout", "3", "--source", pair[0], pair[1])
        check((done.returncode != 0) == (pair == BLOCKED), f"{pair}: status {done.returncode}, {done.stdout}{done.stderr}")


def block(node, source, target):
    """Drops what comes from one address to another."""
    if shutil.which("nft") is None:
        raise CaseSkipped("nft is not installed (Debian: nftables)")
    if node.run(["nft", "add", "table", "ip", "blocked"], must_succeed=False).returncode != 0:
        raise CaseSkipped("no nftables in this kernel")
    node.run(["nft", "add", "chain", "ip", "blocked", "input", "{ type filter hook input priority 0; }"])
    node.run(["nft", "add", "rule", "ip", "blocked", "input", "ip", "saddr", source, "ip", "daddr", target, "drop"])


def messages_rotate(lab):
    """Messages without a given source are spread evenly over our NIs and over the peer's."""
    a, b = make_nodes(lab)
    server = b.start("server", [lab.program("load_node"), "serve",
                                lab.write("b.yaml", config(TARGETS, peers=[SOURCES], **SETTINGS))])
    server.wait_for_line("ready: ")
    done = a.run([lab.program("load_node"), "load", lab.write("a.yaml", config(SOURCES, peers=[TARGETS], **SETTINGS)),
                  "--path", TARGETS[0], "--kinds", "put", "--operations", str(MESSAGES), "--bytes", "1000", "--in-flight",
                  "8"], must_succeed=False)
    check(done.returncode == 0, f"load_node: {done.stdout}{done.stderr}")
    report = json.loads(done.stdout.splitlines()[-1])[0]
    check(report["kinds"]["put"]["ok"] == MESSAGES, f"not all ended well: {report['kinds']}")
    for key, nids in (("nis", SOURCES), ("peer_nis", TARGETS)):
        sent = {ni["nid"]: ni["sent_put"] for ni in report["node"][key]}
        check(sum(sent[nid] for nid in nids) == MESSAGES, f"sent: {sent}")
        for nid in nids:
            check(abs(sent[nid] - MESSAGES / 2) <= 0.05 * MESSAGES / 2, f"shares of {key}: {sent}")


run(pair_is_chosen, messages_rotate)
