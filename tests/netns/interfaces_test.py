#!/usr/bin/env python3
"""Which interface and address a NI gets: SL-7 (no IPv6), SL-9 (labels), SL-11 (wrong default), SL-12 (namespaces).

      namespace a: eth0, or docker0, eth0 and eth1 ──── br0 (namespace hub) ──── eth0 of namespace b
"""

import itertools
import os

from lab import check, config, run

LABELLED = {"eth0": "10.0.1.1@tcp", "eth0:1": "10.0.1.21@tcp", "eth0:10": "10.0.1.31@tcp"}
LABELLED_ADDRESSES = ["10.0.1.1/24", "10.0.1.21/24=eth0:1", "10.0.1.31/24=eth0:10"]


def without_ipv6(lab):
    """SL-7: `disable_ipv6` leaves IPv4 nets as they are, and an IPv6 NI gets a clear answer."""
    a = lab.node("a", eth0=["10.0.1.1/24"])
    b = lab.node("b", eth0=["10.0.1.2/24"])
    for node in (a, b):
        node.sysctl("net.ipv6.conf.all.disable_ipv6", 1)
    check("inet6" not in a.run(["ip", "address"]).stdout, "IPv6 is not off, so this case shows nothing")
    one = a.daemon(config(["10.0.1.1@tcp"]))
    two = b.daemon(config(["eth0"]))
    one.ping("10.0.1.2@tcp")
    two.ping("10.0.1.1@tcp")
    refused = a.start_daemon(config(["fd00::1@tcp"], port=1988, wait_for_interfaces=False), "with-ipv6")
    check(refused.wait(5) == 3, "an IPv6 NI came up without IPv6")
    check("fd00::1@tcp" in refused.output() and "is not on this host" in refused.output(), refused.output())


def started_nids(node, nis):
    daemon = node.daemon(config(nis))
    nids = daemon.nids()
    status, _ = daemon.stop()
    check(status == 0, f"{daemon.name} ended with status {status}")
    return nids


def labels_are_whole_words(lab):
    """SL-9: by device, by label, by address, in both orders. eth0:1 is neither eth0 nor a prefix of eth0:10."""
    a = lab.node("a", eth0=LABELLED_ADDRESSES)
    for names in (list(LABELLED), list(reversed(LABELLED))):
        wanted = [LABELLED[name] for name in names]
        by_name = started_nids(a, names)
        check(by_name == wanted, f"NIs {names} became {by_name}")
        by_address = started_nids(a, wanted)
        check(by_address == wanted, f"NIs {wanted} became {by_address}")
        mixed = started_nids(a, [names[0], wanted[1], names[2]])
        check(mixed == wanted, f"NIs by name, address and name became {mixed}")


def only_exact_duplicates_are_refused(lab):
    """SL-9: the same interface twice, and one address under two names."""
    a = lab.node("a", eth0=LABELLED_ADDRESSES)
    for first, second in (("eth0:1", "eth0:1"), ("10.0.1.21@tcp", "10.0.1.21@tcp"), ("eth0:1", "10.0.1.21@tcp")):
        daemon = a.start_daemon(config([first, second]), f"{first}-and-{second}".replace(":", "."))
        status = daemon.wait(5)
        check(status in (2, 3), f"{first} and {second}: status {status}")
        named = [word for word in (second, "10.0.1.21@tcp") if word in daemon.output()]
        check(named, f"which one is double is not said: {daemon.output()}")


def exactly_the_configured_interface(lab):
    """SL-11: three interfaces in each order of creation, and a configuration that names one."""
    addresses = {"docker0": "172.17.0.1/16", "eth0": "10.0.9.1/24", "eth1": "10.0.1.1/24"}
    for number, order in enumerate(itertools.permutations(addresses)):
        node = lab.node(f"a{number}", **{device: [addresses[device]] for device in order})
        daemon = node.daemon(config(["eth1"]))
        check(daemon.nids() == ["10.0.1.1@tcp"], f"order {order}: NIDs {daemon.nids()}")
        listeners = [line.split()[2] for line in node.sockets("listening")]
        check(listeners == ["10.0.1.1:988"], f"order {order}: listens on {listeners}")
        status, _ = daemon.stop()
        check(status == 0, f"{daemon.name} ended with status {status}")


def an_empty_configuration_is_loud(lab):
    """SL-11: nothing is chosen for the user, and the log says so."""
    a = lab.node("a", docker0=["172.17.0.1/16"], eth0=["10.0.9.1/24"], eth1=["10.0.1.1/24"])
    daemon = a.daemon(config([]))
    check(daemon.nids() == [] and a.sockets("listening") == [], f"something was chosen: {daemon.nids()}")
    check("0@lo only" in daemon.output(), f"not said: {daemon.output()}")
    loud = [line for line in daemon.output().splitlines() if "warn" in line]
    check(loud, f"no warning for a node that talks to nobody: {daemon.output()}")


def namespaces_are_separate(lab):
    """SL-12: equal names and addresses in two namespaces, each with its own partner behind the same address."""
    pairs = []
    for number in (1, 2):
        node, partner = lab.node(f"a{number}"), lab.node(f"b{number}")
        lab.execute(["ip", "-n", node.namespace, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns",
                     partner.namespace])
        for which, address in ((node, "10.0.1.1/24"), (partner, "10.0.1.2/24")):
            which.add_address("eth0", address)
            which.ip("link", "set", "eth0", "up")
        pairs.append((node.daemon(config(["eth0"])), partner.daemon(config(["eth0"]))))
    (one, _), (two, other_partner) = pairs
    for _ in range(3):
        one.ping("10.0.1.2@tcp")
    check(one.ni("10.0.1.1@tcp")["sent_stats"]["get"] == 3, "the pings are not counted where they were sent")
    check(two.ni("10.0.1.1@tcp")["sent_stats"]["get"] == 0, "the other namespace's node counts them, too")
    check(other_partner.ni("10.0.1.2@tcp")["received_stats"]["get"] == 0, "they reached the other namespace")
    check(os.path.exists(one.socket), "no control socket")
    status, _ = one.stop()
    check(status == 0 and not os.path.exists(one.socket), f"status {status}, or the control socket stayed")
    two.ping("10.0.1.2@tcp")
    other_partner.ping("10.0.1.1@tcp")


run(without_ipv6, labels_are_whole_words, only_exact_duplicates_are_refused, exactly_the_configured_interface,
    an_empty_configuration_is_loud, namespaces_are_separate)
