#!/usr/bin/env python3
"""What waits for a connection and what cannot have one: HL-12 (slow connect), HL-14 (ping fails at once).

      namespace a                                            namespace b
      ulnetd   10.0.1.1@tcp                                  ulnetd   10.0.1.2@tcp, behind a packet filter
              eth0 ───────────────── br0 (namespace hub) ───────────────── eth0
"""

import json
import shutil
import time

from lab import CaseSkipped, check, config, run

SLOW_S = 3


def make_nodes(lab):
    return lab.node("a", eth0=["10.0.1.1/24"]), lab.node("b", eth0=["10.0.1.2/24"])


def need_packet_filter(lab):
    if shutil.which("nft") is None:
        raise CaseSkipped("nft is not installed (Debian: nftables)")
    if lab.execute(["nft", "list", "ruleset"], must_succeed=False).returncode != 0:
        raise CaseSkipped("this kernel has no nf_tables")


def drop_connects(node):
    node.run(["nft", "add table inet slow; add chain inet slow in { type filter hook input priority 0; }; "
              "add rule inet slow in tcp dport 988 tcp flags & (syn|ack) == syn counter drop"])


def slow_connect_delivers(lab):
    """HL-12: a PUT waits while SYNs are dropped for three seconds; its time begins when it is queued."""
    need_packet_filter(lab)
    a, b = make_nodes(lab)
    server = b.start("server", [lab.program("load_node"), "serve", lab.write("b.yaml", config(["10.0.1.2@tcp"]))])
    server.wait_for_line("ready: ")
    drop_connects(b)
    loader = a.start("loader", [lab.program("load_node"), "load", lab.write("a.yaml", config(["10.0.1.1@tcp"])),
                                "--path", "10.0.1.2@tcp", "--operations", "2", "--in-flight", "2"])
    loader.wait_for_line("is up")
    time.sleep(SLOW_S - 0.3)  # TCP tries again after 1, 3 and 7 seconds
    rule = b.run(["nft", "list", "chain", "inet", "slow", "in"]).stdout
    check("counter packets 0 " not in rule, f"no SYN was dropped: {rule}")
    b.run(["nft", "delete", "table", "inet", "slow"])
    check(loader.wait(10) == 0, "the loader saw a fault")
    report = json.loads(loader.output().splitlines()[-1])[0]
    for kind, tally in report["kinds"].items():
        check(tally == {"started": 1, "sent": 1, "ok": 1, "failed": {}}, f"{kind}: {tally}")
    check(SLOW_S * 1000 - 500 < report["longest_ms"] < SLOW_S * 1000 + 3000, f"it took {report['longest_ms']} ms")
    driver = report["node"]["nis"][0]["driver"]
    check("send_timeouts" not in driver and "connect_failures" not in driver, f"something was given up: {driver}")
    check("timed out" not in loader.output().lower(), f"a time-out is logged: {loader.output()}")


def failed_ping(daemon, nid, cause):
    """`ulnetctl ping` with a time-out of 10 s fails within one, and says why."""
    begin = time.monotonic()
    done = daemon.ctl_run("--json", "ping", "--timeout", "10", nid)
    took = time.monotonic() - begin
    check(done.returncode != 0, f"{nid} answered")
    errors = json.loads(done.stdout)["manage"]
    check(len(errors) == 1 and cause in errors[0]["descr"], f"{nid}: wanted {cause!r}, got {errors}")
    check(took < 1, f"the ping of {nid} took {took:.2f} s")


def ping_fails_at_once(lab):
    """HL-14: a host that answers with RST, and nets that I do not have."""
    a, _ = make_nodes(lab)
    daemon = a.daemon(config(["10.0.1.1@tcp"]))
    failed_ping(daemon, "10.0.1.2@tcp", "Connection refused")
    failed_ping(daemon, "10.0.1.2@tcp9", "No route to host")
    failed_ping(daemon, "10.0.1.2@o2ib", "No route to host")
    stats = daemon.ctl("stats", "show")["statistics"]
    check(stats["msgs_alloc"] == 0 and stats["rst_alloc"] == 0, f"something is left: {stats}")


run(ping_fails_at_once, slow_connect_delivers)
