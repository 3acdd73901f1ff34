#!/usr/bin/env python3
"""HL-17: both ends believe in an MTU of 9000, a hop in the middle carries 1500, and the ICMP that would say so is lost.

      a  eth0 10.0.1.1/24 ── 9000 ── router ── 1500 ── 10.0.2.1/24 eth0  b (whose own end says 9000)
"""

import json
import re
import shutil
import time

from lab import CaseSkipped, check, config, run, wait_until

LND_TIMEOUT_S = 3
A, B = "10.0.1.1@tcp", "10.0.2.1@tcp"


def link(lab, router, port, node, address, gateway):
    """A wire of MTU 9000 between a node and the router, and the node's way to the other one."""
    lab.execute(["ip", "-n", router, "link", "add", port, "mtu", "9000", "type", "veth", "peer", "name", "eth0", "mtu",
                 "9000", "netns", node.namespace])
    lab.execute(["ip", "-n", router, "address", "add", gateway + "/24", "dev", port])
    lab.execute(["ip", "-n", router, "link", "set", port, "up"])
    node.ip("address", "add", address + "/24", "dev", "eth0")
    node.ip("link", "set", "eth0", "up")
    node.ip("route", "add", "default", "via", gateway)
    node.sysctl("net.ipv4.tcp_mtu_probing", 0)


def make_path(lab):
    if shutil.which("nft") is None:
        raise CaseSkipped("nft is not installed (Debian: nftables)")
    router = lab.node("router")
    a, b = lab.node("a"), lab.node("b")
    link(lab, router.namespace, "to_a", a, "10.0.1.1", "10.0.1.254")
    link(lab, router.namespace, "to_b", b, "10.0.2.1", "10.0.2.254")
    router.sysctl("net.ipv4.ip_forward", 1)
    if router.run(["nft", "add", "table", "ip", "quiet"], must_succeed=False).returncode != 0:
        raise CaseSkipped("the kernel has no nftables")
    router.run(["nft", "add chain ip quiet output { type filter hook output priority 0; }; "
                       "add rule ip quiet output icmp type destination-unreachable counter drop"])
    return router, a, b


def settings(nid):
    return config([nid], tcp={"timeout": LND_TIMEOUT_S, "conns_per_peer": 1}, global_={"transaction_timeout": 10})


def narrow(router):
    router.ip("link", "set", "to_b", "mtu", "1500")


def check_path(daemon, *words):
    done = daemon.ctl_run("--json", "check", "path", B, *words)
    check(done.stdout, f"check path: {done.stderr}")
    return done.returncode, json.loads(done.stdout)["path"]


def path_is_checked(lab):
    """`ulnetctl check path` passes with all sizes on a good path, and else tells the largest that passes."""
    router, a, b = make_path(lab)
    b_daemon = b.daemon(settings(B))
    daemon = a.daemon(settings(A))
    status, path = check_path(daemon)
    check(status == 0 and path["largest"] == 1 << 20 and "advice" not in path, f"on a good path: {status}, {path}")
    check((path["source"], path["path_mtu"]) == (A, 9000), f"what is in use: {path}")
    drops = b_daemon.ctl("stats", "show", "-v", "4")["statistics"]["ulnet"]["drops"]
    check(sum(drops.values()) >= len(path["sizes"]), f"they were to be dropped by the node: {drops}")

    narrow(router)
    checking = a.start("check", [lab.program("ulnetctl"), "--socket", daemon.socket, "--json", "check", "path", B,
                                 "--source", A])
    while checking.running():
        daemon.ping(B)
        time.sleep(0.1)
    status, path = checking.wait(1), json.loads(checking.output())["path"]
    results = {size["bytes"]: size["result"] for size in path["sizes"]}
    print(f"    {results}")
    check(status != 0 and path["largest"] == 1024, f"behind a hop of 1500: {status}, {path}")
    check(list(results) == [0, 512, 1024, 2048] and results[2048] in ("ETIMEDOUT", "ECONNRESET"), f"sizes: {results}")
    check("path_mtu 9000" in path["advice"], f"advice: {path}")
    daemon.ping(B)
    filtered = router.run(["nft", "list", "chain", "ip", "quiet", "output"]).stdout
    check("packets 0 " not in filtered, f"the router had nothing to say: {filtered}")
    daemon.wait_for_line("does each hop carry the path MTU of 9000 (MSS 8948) that our TCP uses? "
                         f"'ulnetctl check path {B} --source {A}'", 2)

    checking = a.start("again", [lab.program("ulnetctl"), "--socket", daemon.socket, "check", "path", B])
    time.sleep(1)
    busy = daemon.ctl_run("check", "path", B)
    check(busy.returncode != 0 and "another path is being checked" in busy.stderr, f"a second check: {busy}")
    status, took = daemon.stop()
    check(status == 0 and took < 4, f"a daemon that checks a path ends with {status} after {took:.1f} s")
    check(checking.wait(1) != 0, "a check that was cut short has not failed")


def wrong_names(lab):
    """What cannot be checked is named."""
    _, a, _ = make_path(lab)
    daemon = a.daemon(settings(A))
    done = daemon.ctl_run("check", "path", B, "--source", "10.0.9.9@tcp")
    check(done.returncode != 0 and "10.0.9.9@tcp is no local NID" in done.stderr, f"another's NID: {done}")
    done = daemon.ctl_run("check", "path", A)
    check(done.returncode != 0 and f"{A} is a NID of this node" in done.stderr, f"our own NID: {done}")


def put_makes_no_progress(lab):
    """PUTs of 1 MiB time out, and the driver's log tells how many bytes of one the peer's TCP has acknowledged."""
    router, a, b = make_path(lab)
    server = b.start("server", [lab.program("load_node"), "serve", lab.write("b.yaml", settings(B))])
    server.wait_for_line("ready: ")
    loader = a.start("loader", [lab.program("load_node"), "load", lab.write("a.yaml", settings(A)), "--path", B,
                                "--kinds", "put", "--bytes", "1048576", "--in-flight", "4"])
    wait_until(lambda: "progress 1" in loader.output(), 10, "PUTs pass on a good path")
    narrow(router)
    # By its own time-out, or since the peer, which has half a frame, is out of patience first.
    stalled = "bytes of a message are written"
    loader.wait_for_line(stalled, LND_TIMEOUT_S + 3)
    [told] = [text for text in loader.output().splitlines() if stalled in text][:1]
    found = re.search(rf"(\d+) of the (\d+) {stalled}, of these the peer's TCP has acknowledged (\d+)", told)
    check(found, f"what the log tells: {told}")
    written, size, acknowledged = map(int, found.groups())
    check((1 << 20) < size < (1 << 20) + 200 and acknowledged < written <= size, f"what the log tells: {told}")
    loader.stop(30)
    put = json.loads(loader.output().splitlines()[-1])[0]["kinds"]["put"]
    check(put["ok"] + sum(put["failed"].values()) == put["started"] and put["failed"], f"how PUTs ended: {put}")


run(path_is_checked, wrong_names, put_makes_no_progress)
