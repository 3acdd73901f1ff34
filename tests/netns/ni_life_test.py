#!/usr/bin/env python3
"""The life of local NIs while their daemon runs: links, addresses and interfaces that come and go, `net add`, `net del`.

      namespace a                                            namespace b
      10.0.1.1@tcp   eth0 ──────┐                  ┌────── eth0   10.0.1.2@tcp
                                br0 (namespace hub)
      10.0.2.1@tcp1  eth1 ──────┘                  └────── eth1   10.0.2.2@tcp1

Node a changes under the load of a pinging node b. HL-9, HL-11, SL-10, DS-5 (its changes of NIs), DS-11.
"""

import contextlib
import fcntl
import json
import re
import select
import struct
import threading
import time

from capture import Capture, enter_namespace
from lab import FULL, check, config, run, wait_until

NOTICED_S = 1  # within which a change of the host is to show
TUNABLES = {"lnd tunables": {"timeout": 3, "conns_per_peer": 1, "min_reconnectms": 100, "max_reconnectms": 500}}
GLOBAL = {"transaction_timeout": 10, "retry_count": 2}
ADDRESSES = {"a": ("10.0.1.1", "10.0.2.1"), "b": ("10.0.1.2", "10.0.2.2")}
CHANGES = 200 if FULL else 40
GAP_S = 30 if FULL else 3


def settings(*nis, **ulnet):
    """`nis`: (net, interface or NID, ...); `peers`: lists of NIDs of nodes."""
    nets = []
    for net, *names in nis:
        entries = [{**({"nid": name} if "@" in name else {"interfaces": {"0": name}}), **TUNABLES} for name in names]
        nets.append({"net type": net, "local NI(s)": entries})
    tree = {"net": nets, "global": {**GLOBAL, **ulnet.pop("global_", {})}}
    peers = ulnet.pop("peers", [])
    tree["peer"] = [{"primary nid": nids[0], "Multi-Rail": True, "peer ni": [{"nid": nid} for nid in nids]}
                    for nids in peers]
    tree["ulnet"] = {"accept": "secure", "accept_port": 988, **ulnet}
    return json.dumps(tree, indent=1) + "\n"


def two_nodes(lab):
    nodes = [lab.node(name, eth0=[f"{first}/24"], eth1=[f"{second}/24"]) for name, (first, second) in ADDRESSES.items()]
    for node in nodes:  # both NICs of a node hang on one bridge: each answers for its own address only
        for device in ("all", "default", "eth0", "eth1"):
            for name, value in (("arp_ignore", 1), ("arp_announce", 2), ("rp_filter", 2)):
                node.sysctl(f"net.ipv4.conf.{device}.{name}", value)
    return nodes


def start_pinging(lab, node, *targets, **ulnet):
    """A load of pings from a node to NIDs, each in turn; until it is stopped."""
    paths = [word for target in targets for word in ("--path", target)]
    text = settings(("tcp", "eth0"), ("tcp1", "eth1"), **ulnet)
    loader = node.start("loader", [lab.program("load_node"), "load", lab.write("loader.yaml", text), *paths,
                                   "--kinds", "ping", "--in-flight", "4"])
    wait_until(lambda: progress(loader)[0] > 100, 10, "the load runs")
    return loader


def progress(loader):
    """Operations that ended well and badly so far."""
    lines = re.findall(r"^progress (\d+) (\d+)$", loader.output(), re.MULTILINE)
    return (int(lines[-1][0]), int(lines[-1][1])) if lines else (0, 0)


def goes_on(loader, timeout_s, text):
    before = progress(loader)[0]
    wait_until(lambda: progress(loader)[0] > before + 100, timeout_s, text)


def end(loader):
    """Stops the load; how its operations failed, and none was lost or ended twice."""
    status, _ = loader.stop(40)
    report = json.loads(loader.output().splitlines()[-1])[0]
    check(status == 0 and not report["faults"], f"status {status}, faults {report['faults']}")
    ping = report["kinds"]["ping"]
    check(ping["started"] == ping["ok"] + sum(ping["failed"].values()), f"not each ended once: {ping}")
    for ni in report["node"]["nis"] + report["node"]["peer_nis"]:
        check(ni["credits_missing"] == 0 and ni["waiting"] == 0, f"credits are missing: {ni}")
    return ping["failed"]


def is_up(daemon, nid):
    return daemon.ni(nid)["status"] == "up"


def goes_down(daemon, nid, reason):
    wait_until(lambda: not is_up(daemon, nid), NOTICED_S, f"{nid} is down")
    said = daemon.ni(nid)["ulnet"]["down_reason"]
    check(reason in said, f"{nid} is down because of {said!r}, not {reason!r}")


def comes_up(daemon, nid):
    wait_until(lambda: is_up(daemon, nid), NOTICED_S, f"{nid} is up again")
    check("down_reason" not in daemon.ni(nid)["ulnet"], f"{nid} is up, and says why it is down")


def sent(daemon, nid):
    return sum(daemon.ni(nid)["sent_stats"].values())


def rails_with_daemons(lab):
    a, b = two_nodes(lab)
    nids = {name: (f"{first}@tcp", f"{second}@tcp1") for name, (first, second) in ADDRESSES.items()}
    one = a.daemon(settings(("tcp", "eth0"), ("tcp1", "eth1"), peers=[nids["b"]]))
    two = b.daemon(settings(("tcp", "eth0"), ("tcp1", "eth1"), peers=[nids["a"]]))
    for _ in range(4):
        one.ping("10.0.1.2@tcp")
    check(sent(one, "10.0.2.1@tcp1") > 0, "the second rail is not used at all")
    return a, one, two


def unused_while_down(daemon, nid, target):
    """20 messages to a multi-rail peer go by the other rail."""
    before = sent(daemon, nid)
    for _ in range(20):
        daemon.ping(target)
    check(sent(daemon, nid) == before, f"{nid} is down and has sent")


def link_down_and_up(lab):
    """HL-9: `ip link set down` and up."""
    a, one, two = rails_with_daemons(lab)
    a.ip("link", "set", "eth1", "down")
    goes_down(one, "10.0.2.1@tcp1", "the link of eth1 is down")
    unused_while_down(one, "10.0.2.1@tcp1", "10.0.2.2@tcp1")
    a.ip("link", "set", "eth1", "up")
    comes_up(one, "10.0.2.1@tcp1")
    one.ping("10.0.2.2@tcp1", "--source", "10.0.2.1@tcp1", "--timeout", "10")
    two.ping("10.0.2.1@tcp1", "--source", "10.0.2.2@tcp1", "--timeout", "10")


def interface_made_anew(lab):
    """HL-9: the interface is deleted, and another one with its name and address made."""
    a, one, two = rails_with_daemons(lab)
    index = a.run(["cat", "/sys/class/net/eth1/ifindex"]).stdout
    a.ip("link", "del", "eth1")
    goes_down(one, "10.0.2.1@tcp1", "NID 10.0.2.1@tcp1 is no longer on eth1")
    unused_while_down(one, "10.0.2.1@tcp1", "10.0.2.2@tcp1")
    check(one.connections("10.0.2.2@tcp1") == [], "connections of an address that is gone")
    a.add_device("eth1", ["10.0.2.1/24"])
    check(a.run(["cat", "/sys/class/net/eth1/ifindex"]).stdout != index, "the index is the same: this shows nothing")
    comes_up(one, "10.0.2.1@tcp1")
    one.ping("10.0.2.2@tcp1", "--source", "10.0.2.1@tcp1", "--timeout", "10")
    two.ping("10.0.2.1@tcp1", "--source", "10.0.2.2@tcp1", "--timeout", "10")


class Wire:
    """Two TUN devices, each in a namespace of its own, and what carries packets between them."""

    def __init__(self, *nodes):
        self._files = []
        for node in nodes:
            thread = threading.Thread(target=self._open, args=(node,))
            thread.start()
            thread.join()
        check(len(self._files) == 2, "no TUN devices")
        threading.Thread(target=self._carry, daemon=True).start()

    def _open(self, node):
        tunsetiff, iff_tun, iff_no_pi = 0x400454CA, 0x0001, 0x1000
        enter_namespace(node.namespace)
        file = open("/dev/net/tun", "r+b", buffering=0)  # pylint: disable=consider-using-with
        fcntl.ioctl(file, tunsetiff, struct.pack("16sH22x", b"tun0", iff_tun | iff_no_pi))
        self._files.append(file)

    def _carry(self):
        other = {self._files[0]: self._files[1], self._files[1]: self._files[0]}
        while True:
            for file in select.select(self._files, [], [])[0]:
                packet = file.read(1 << 16)
                with contextlib.suppress(OSError):  # the other one is not up yet
                    other[file].write(packet)


def unknown_state_counts_as_up(lab):
    """HL-11: TUN devices, which never say more of themselves than that their state is unknown."""
    a, b = lab.node("a"), lab.node("b")
    Wire(a, b)
    for node, address in ((a, "10.0.7.1"), (b, "10.0.7.2")):
        node.ip("address", "add", f"{address}/24", "dev", "tun0")
        node.ip("link", "set", "tun0", "up")
        state = node.run(["cat", "/sys/class/net/tun0/operstate"]).stdout.strip()
        check(state == "unknown", f"tun0 is {state}: this shows nothing")
    one, two = (node.daemon(settings(("tcp", "tun0"))) for node in (a, b))
    check(is_up(one, "10.0.7.1@tcp") and is_up(two, "10.0.7.2@tcp"), "a NI of unknown state is held down")
    one.ping("10.0.7.2@tcp", "--timeout", "5")
    two.ping("10.0.7.1@tcp", "--timeout", "5")


def address_removed_and_put_back(lab):
    """SL-10: a lease that expires, with a gap. Meanwhile nothing leaves with the address that is gone."""
    a, b = two_nodes(lab)
    one = a.daemon(settings(("tcp", "eth0"), ("tcp1", "eth1")))
    loader = start_pinging(lab, b, "10.0.1.1@tcp")
    with Capture(a.namespace, "eth0") as capture:
        a.ip("address", "del", "10.0.1.1/24", "dev", "eth0")
        goes_down(one, "10.0.1.1@tcp", "NID 10.0.1.1@tcp is no longer on eth0")
        check(one.connections("10.0.1.2@tcp") == [], "connections of an address that is gone")
        seen = capture.packets_from("10.0.1.1")
        failed = one.ctl_run("ping", "--source", "10.0.1.1@tcp", "10.0.1.2@tcp")
        check(failed.returncode != 0, "a ping from an address that is not there succeeded")
        time.sleep(GAP_S)
        check(capture.packets_from("10.0.1.1") == seen, "packets with an address that the host does not own")
    check(is_up(one, "10.0.2.1@tcp1"), "the other NI is down, too")
    a.add_address("eth0", "10.0.1.1/24")
    comes_up(one, "10.0.1.1@tcp")
    goes_on(loader, 10, "the load goes on")
    end(loader)


def another_address_is_not_taken(lab):
    """SL-10, `address_change: keep`: the NID stays, down and with the reason, until its address is back."""
    a, b = two_nodes(lab)
    one = a.daemon(settings(("tcp", "eth0")))
    loader = start_pinging(lab, b, "10.0.1.1@tcp")
    a.ip("address", "del", "10.0.1.1/24", "dev", "eth0")
    a.add_address("eth0", "10.0.1.9/24")
    goes_down(one, "10.0.1.1@tcp", "NID 10.0.1.1@tcp is no longer on eth0")
    time.sleep(2)
    check(one.nids() == ["10.0.1.1@tcp"], f"NIDs {one.nids()}")
    a.ip("address", "del", "10.0.1.9/24", "dev", "eth0")
    a.add_address("eth0", "10.0.1.1/24")
    comes_up(one, "10.0.1.1@tcp")
    goes_on(loader, 10, "the load goes on")
    end(loader)


def another_address_is_followed(lab):
    """SL-10, `address_change: follow`: the new NID takes the place of the old one, which is told to whoever asks."""
    a, b = two_nodes(lab)
    one = a.daemon(settings(("tcp", "eth0"), ("tcp1", "eth1"), address_change="follow"))
    loader = start_pinging(lab, b, "10.0.2.1@tcp1")
    a.ip("address", "del", "10.0.1.1/24", "dev", "eth0")
    a.add_address("eth0", "10.0.1.9/24")
    wait_until(lambda: sorted(one.nids()) == ["10.0.1.9@tcp", "10.0.2.1@tcp1"], NOTICED_S, "the address is followed")
    check(is_up(one, "10.0.1.9@tcp"), "the new NI is down")
    listeners = sorted(line.split()[2] for line in a.sockets("listening"))
    check(listeners == ["10.0.1.9:988", "10.0.2.1:988"], f"listens on {listeners}")
    failed = end(loader)
    check(not failed, f"the other net was disturbed: {failed}")
    loader.discard()
    again = start_pinging(lab, b, "10.0.1.9@tcp")
    check(not end(again), "the new NID does not answer all")


def the_one_who_sends_follows(lab):
    """SL-10, `follow`, in the node that sends, which has no thread of its own: its load goes on with the new NID."""
    a, b = two_nodes(lab)
    two = b.daemon(settings(("tcp", "eth0"), ("tcp1", "eth1")))
    loader = start_pinging(lab, a, "10.0.1.2@tcp", "10.0.2.2@tcp1", address_change="follow")
    a.ip("address", "del", "10.0.1.1/24", "dev", "eth0")
    a.add_address("eth0", "10.0.1.9/24")
    loader.wait_for_line("NI 10.0.1.9@tcp is up on eth0", NOTICED_S)
    loader.wait_for_line("NI 10.0.1.1@tcp is removed", NOTICED_S)
    received = sum(two.ni("10.0.1.2@tcp")["received_stats"].values())
    wait_until(lambda: sum(two.ni("10.0.1.2@tcp")["received_stats"].values()) > received + 100, 10,
               "the net whose NID is new carries load again")
    end(loader)


def absent_at_start(lab):
    """An interface that comes after the daemon: shown as down, with what it waits for; then up by itself."""
    a = lab.node("a", eth0=["10.0.1.1/24"])
    b = lab.node("b", eth0=["10.0.1.2/24"], eth1=["10.0.2.2/24"])
    one = a.daemon(settings(("tcp", "eth0"), ("tcp1", "eth1"), ("tcp2", "10.0.3.1@tcp2")))
    two = b.daemon(settings(("tcp", "eth0"), ("tcp1", "eth1")))
    goes_down(one, "0.0.0.0@tcp1", "waiting for eth1")
    goes_down(one, "10.0.3.1@tcp2", "waiting for the address of 10.0.3.1@tcp2")
    two.ping("10.0.1.1@tcp")
    a.add_device("eth1", [])
    time.sleep(0.5)
    goes_down(one, "0.0.0.0@tcp1", "waiting for eth1")
    a.add_address("eth1", "10.0.2.1/24")
    wait_until(lambda: "10.0.2.1@tcp1" in one.nids(), NOTICED_S, "the NI of eth1 is up")
    check("0.0.0.0@tcp1" not in one.nids(), "it still waits, too")
    two.ping("10.0.2.1@tcp1", "--timeout", "5")
    done = one.ctl_run("net", "del", "--net", "tcp2")
    check(done.returncode == 0, f"a NI that waits cannot be removed: {done.stderr}")
    a.add_address("eth1", "10.0.3.1/24")
    time.sleep(0.5)
    check(sorted(one.nids()) == ["10.0.1.1@tcp", "10.0.2.1@tcp1"], f"NIDs {one.nids()}")

    refused = a.start_daemon(settings(("tcp", "eth7"), wait_for_interfaces=False), "impatient")
    check(refused.wait(5) == 3 and "eth7" in refused.output(), refused.output())


def refusals(daemon):
    """lnetctl's statuses, and the object in the text."""
    for words, code, text in (
            (("net", "add", "--net", "tcp", "--if", "eth0"), -17, "10.0.1.1@tcp"),
            (("net", "add", "--net", "tcp1", "--if", "eth7"), -100, "eth7"),
            (("net", "add", "--net", "tcp1"), -22, "interface / NID is missing"),
            (("net", "del", "--net", "tcp9"), -22, "tcp9"),
            (("net", "del", "--nid", "10.0.9.9@tcp"), -22, "10.0.9.9@tcp")):
        done = daemon.ctl_run(*words)
        check(done.returncode == 234, f"{words}: status {done.returncode}")
        for part in (f"{words[1]}:", "net:", f"errno: {code}", text):
            check(part in done.stderr, f"{words}: no {part!r} in {done.stderr}")


def changes_under_load(lab):
    """DS-5: a net comes and goes many times, each within a second; the other net does not notice, each time the new NI
    answers, and who was a peer by it is one no longer."""
    a, b = two_nodes(lab)
    one = a.daemon(settings(("tcp", "eth0")))
    visitor = lab.node("c", eth0=["10.0.2.3/24"]).daemon(settings(("tcp1", "eth0")))
    refusals(one)
    loader = start_pinging(lab, b, "10.0.1.1@tcp")
    slowest = 0
    for number in range(CHANGES):
        for words in (("net", "add", "--net", "tcp1", "--if", "eth1", "--peer-credits", "16", "--credits", "64"),
                      ("net", "del", "--net", "tcp1")):
            begin = time.monotonic()
            done = one.ctl_run(*words)
            slowest = max(slowest, time.monotonic() - begin)
            check(done.returncode == 0, f"change {number}, {words}: {done.stdout}{done.stderr}")
            shown = "10.0.2.1@tcp1" in one.nids()
            check(shown == (words[1] == "add"), f"change {number}, {words}: not shown at once")
            if words[1] == "add":
                visitor.ping("10.0.2.1@tcp1", "--timeout", "5")
            peers = {peer["nid"] for peer in one.ctl("peer", "list").get("peer list", [])}
            check(("10.0.2.3@tcp1" in peers) == (words[1] == "add"), f"change {number}, {words}: peers {peers}")
            if words[1] == "add" and number == 0:
                tunables = one.ni("10.0.2.1@tcp1")["tunables"]
                check(tunables["peer_credits"] == 16 and tunables["credits"] == 64, f"tunables {tunables}")
    check(slowest < NOTICED_S, f"the slowest change took {slowest:.2f} s")
    failed = end(loader)
    check(not failed, f"the other net was disturbed: {failed}")


def removed_under_its_own_load(lab):
    """A NI goes while it is pinged, and comes back: each operation ends once, and the load goes on."""
    a, b = two_nodes(lab)
    one = a.daemon(settings(("tcp", "eth0"), ("tcp1", "eth1")))
    loader = start_pinging(lab, b, "10.0.1.1@tcp", "10.0.2.1@tcp1")
    for _ in range(5):
        one.ctl("net", "del", "--nid", "10.0.2.1@tcp1")
        goes_on(loader, 15, "the load goes on without the NI")
        one.ctl("net", "add", "--nid", "10.0.2.1@tcp1")
        received = sum(one.ni("10.0.2.1@tcp1")["received_stats"].values())
        wait_until(lambda before=received: sum(one.ni("10.0.2.1@tcp1")["received_stats"].values()) > before + 10, 15,
                   "the NI that is back carries load")
    end(loader)


def more_than_the_limit(lab):
    """DS-11: the 17th NI of 16."""
    a = lab.node("a", eth0=[f"10.0.1.{i}/24" for i in range(1, 21)])
    one = a.daemon(settings(("tcp", "10.0.1.1@tcp"), global_={"max_interfaces": 16}))
    for i in range(2, 21):
        done = one.ctl_run("net", "add", "--nid", f"10.0.1.{i}@tcp")
        if i <= 16:
            check(done.returncode == 0, f"NI {i}: {done.stderr}")
            continue
        check(done.returncode == 234, f"NI {i} of 16: status {done.returncode}")
        check("max_interfaces allows 16" in done.stderr, f"NI {i} of 16: {done.stderr}")
    check(len(one.nids()) == 16, f"NIDs {one.nids()}")
    refused = a.start_daemon(settings(("tcp", *(f"10.0.1.{i}@tcp" for i in range(1, 21))), accept_port=1988,
                                      global_={"max_interfaces": 16}), "too-many")
    check(refused.wait(5) == 3 and "max_interfaces allows 16" in refused.output(), refused.output())


run(link_down_and_up, interface_made_anew, unknown_state_counts_as_up, address_removed_and_put_back,
    another_address_is_not_taken, another_address_is_followed, the_one_who_sends_follows, absent_at_start, changes_under_load,
    removed_under_its_own_load, more_than_the_limit)
