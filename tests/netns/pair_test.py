#!/usr/bin/env python3
"""T1: two nodes on one net, on port 988 and with accept=secure as kernel nodes run it; IPv4 and IPv6.

      namespace a                                            namespace b
      ulnetd      10.0.1.1@tcp   fd00::1@tcp                 ulnetd      10.0.1.2@tcp   fd00::2@tcp
      ulnet_perf  10.0.1.11@tcp  fd00::11@tcp                ulnet_perf  10.0.1.12@tcp  fd00::12@tcp
              eth0 ───────────────── br0 (namespace hub) ───────────────── eth0
"""

from lab import check, config, run

PERF_BYTES = 64 << 20


def make_nodes(lab):
    return [lab.node(name, eth0=[f"10.0.1.{i}/24", f"10.0.1.1{i}/24", f"fd00::{i}/64", f"fd00::1{i}/64"])
            for i, name in enumerate("ab", 1)]


def privileged(endpoint):
    return int(endpoint.rpartition(":")[2]) < 1024


def pings_go_both_ways(lab):
    daemons = [node.daemon(config([f"10.0.1.{i}@tcp", f"fd00::{i}@tcp"])) for i, node in enumerate(make_nodes(lab), 1)]
    for i, daemon in enumerate(daemons, 1):
        other = 3 - i
        for nid in (f"10.0.1.{other}@tcp", f"fd00::{other}@tcp"):
            answer = daemon.ctl("ping", nid)["ping"][0]
            nids = [ni["nid"] for ni in answer["peer_ni"]]
            check(f"10.0.1.{other}@tcp" in nids, f"{nid} names itself {nids}")
            connections = daemon.connections(nid)
            check(connections, f"{daemon.name} shows no connection to {nid}")
            for connection in connections:
                dialled_from = connection["local" if connection["direction"] == "active" else "remote"]
                check(privileged(dialled_from), f"a connection from {dialled_from}, which secure acceptors refuse")
    for i, daemon in enumerate(daemons, 1):
        for nid in (f"10.0.1.{i}@tcp", f"fd00::{i}@tcp"):
            stats = daemon.ni(nid)
            check(stats["sent_stats"]["get"] == 1, f"{nid} sent {stats['sent_stats']}, not the one GET of its ping")
            check(stats["received_stats"]["get"] == 1, f"{nid} received {stats['received_stats']}")
        status, _ = daemon.stop()
        check(status == 0, f"{daemon.name} ended with status {status}")


def bytes_arrive(lab):
    """PUT with ACK and GET, each byte compared, over the devices and not some other way."""
    a, b = make_nodes(lab)
    perf = lab.program("ulnet_perf")
    for source, target in (("10.0.1.11@tcp", "10.0.1.12@tcp"), ("fd00::11@tcp", "fd00::12@tcp")):
        server = b.start(f"server-{target}", [perf, "serve", "--config", lab.write("b.yaml", config([target]))])
        server.wait_for_line("ready: ")
        before = a.moved_bytes("eth0")
        a.run([perf, "verify", "--config", lab.write("a.yaml", config([source])), "--target", target, "--bytes",
               str(PERF_BYTES)])
        received, sent = (now - then for now, then in zip(a.moved_bytes("eth0"), before))
        check(min(received, sent) > PERF_BYTES, f"{PERF_BYTES} bytes each way, but eth0 saw {received} in, {sent} out")
        status, _ = server.stop()
        check(status == 0, f"{target} ended with status {status}: bytes were wrong")
        check(f"verified PUTs: {PERF_BYTES >> 20} right, 0 wrong" in server.output(), server.output())


run(pings_go_both_ways, bytes_arrive)
