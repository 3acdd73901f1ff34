#!/usr/bin/env python3
"""T2s (case HL-4): two nodes with two NIs each on one net; one NID of b falls silent.

      namespace a                                        namespace b
      10.0.1.1@tcp   eth0 ────┐              ┌──── eth0   10.0.1.3@tcp
      10.0.1.2@tcp   eth1 ────┤     br0      ├──── eth1   10.0.1.4@tcp
"""

import shutil
import time

from lab import CaseSkipped, check, config, run, wait_until

LND_TIMEOUT_S = 3
PINGS = 40
SILENT = "10.0.1.4"


def make_daemon(lab, name, addresses):
    node = lab.node(name, eth0=[addresses[0] + "/24"], eth1=[addresses[1] + "/24"])
    for device in ("all", "eth0", "eth1"):
        for setting, value in (("arp_ignore", 1), ("arp_announce", 2), ("rp_filter", 2)):
            node.sysctl(f"net.ipv4.conf.{device}.{setting}", value)
    text = config([address + "@tcp" for address in addresses], tcp={"timeout": LND_TIMEOUT_S, "conns_per_peer": 1},
                  global_={"transaction_timeout": 10, "max_recovery_ping_interval": 2})
    return node, node.daemon(text)


def silence(node):
    """Nothing of this address reaches the node, or leaves it; its link stays up."""
    if shutil.which("nft") is None:
        raise CaseSkipped("nft is not installed (Debian: nftables)")
    if node.run(["nft", "add", "table", "ip", "hole"], must_succeed=False).returncode != 0:
        raise CaseSkipped("the kernel has no nftables")
    for hook, field in (("input", "daddr"), ("output", "saddr")):
        node.run(["nft", f"add chain ip hole {hook} {{ type filter hook {hook} priority 0; }}; "
                         f"add rule ip hole {hook} ip {field} {SILENT} drop"])


def peer_ni(daemon, nid):
    for peer in daemon.ctl("peer", "show", "-v", "4")["peer"]:
        for ni in peer["peer ni"]:
            if ni["nid"] == nid:
                return ni
    return None


def remote_nid_falls_silent(lab):
    """Both ends lose health by the time-out; the local NI is well again by its own ping, the remote one when it
    answers; what is sent meanwhile avoids it."""
    a_node, a = make_daemon(lab, "a", ("10.0.1.1", "10.0.1.2"))
    b_node, b = make_daemon(lab, "b", ("10.0.1.3", SILENT))
    local, silent = "10.0.1.1@tcp", SILENT + "@tcp"
    a.ctl("discover", "10.0.1.3@tcp")
    a.ping(silent, "--source", local)

    def local_health():
        return a.ni(local)["health stats"]["health value"]

    def remote():
        return peer_ni(a, silent)

    def remote_health():
        return remote()["health stats"]["health value"]

    check((local_health(), remote_health()) == (1000, 1000), "all is well at first")
    silence(b_node)
    # By its NID and not by any of its node's: first into a connection that does not answer, then into a new one.
    lost = a.ctl_run("ping", "--source", local, "-t", "1", silent)
    check(lost.returncode != 0, "a silent NID has answered")
    wait_until(lambda: not remote()["ulnet"]["connections"], LND_TIMEOUT_S + 2, "the old connection is given up")
    before = remote_health()
    pinging = a_node.start("ping", [lab.program("ulnetctl"), "--socket", a.socket, "ping", "--source", local, "-t", "8",
                                    silent])
    # For a second at least, until it is pinged.
    wait_until(lambda: local_health() < 1000, LND_TIMEOUT_S + 2, "the local NI loses health by the connect's time-out")
    failed_s = time.monotonic()
    wait_until(lambda: remote_health() < before, 1, "the remote NI loses health, too")
    check(pinging.wait(1) != 0, "a silent NID has answered")
    network = a.ctl("stats", "show")["statistics"]["network_timeout_count"]
    check(network >= 1, "no network time-out is counted")

    wait_until(lambda: local_health() == 1000, 5, "the local NI is well again by its own ping")
    print(f"    the local NI is well again after {time.monotonic() - failed_s:.1f} s")
    sent = remote()["sent_stats"]["get"]
    begin = time.monotonic()
    a.ping("10.0.1.3@tcp", *["10.0.1.3@tcp"] * (PINGS - 1))
    check(time.monotonic() - begin < LND_TIMEOUT_S - 1, "pings of the node have waited for the silent NID")
    # None of these, but perhaps one for recovery meanwhile.
    check(remote()["sent_stats"]["get"] - sent <= 1, "pings of the node were sent to the silent NID")
    time.sleep(LND_TIMEOUT_S)
    check(remote_health() < 1000, "the remote NI is well though nothing was heard of it")
    check(local_health() == 1000, "the recovery pings of a silent peer NI cost the local NI its health")

    b_node.run(["nft", "delete", "table", "ip", "hole"])
    wait_until(lambda: remote_health() == 1000, 15, "the remote NI is well again since it answers")
    a.ping(silent, "--source", local)


run(remote_nid_falls_silent)
