#!/usr/bin/env python3
"""T2: two nodes with two rails (rails.py). Healthy rails share the messages; when one is cut under load, silently or
with its carrier, what was not fully written goes by the other, what was ends once, and both are used when it is back.
"""

import time

from lab import check, run, wait_until
from rails import (LND_TIMEOUT_S, NIDS, TRANSACTION_TIMEOUT_S, cut_rail, make_namespaces, mend_rail, received_puts,
                   report_of, shares, start_load, start_server, stop_load, wait_for_load)

IN_FLIGHT = 32
# A stalled connection is looked for once in a second, and this host has other things to do.
NOTICED_S = {"silently": LND_TIMEOUT_S + 1.5, "by carrier": 1}
# Of the silent rail at most one LND time-out; of the other nothing but what the cut connections hold waits.
STALL_MAX_MS = {how: seconds * 1000 for how, seconds in NOTICED_S.items()}
# A silent NI is pinged every 2 s, plus up to a quarter, and connected to anew after 0.5 s; once it answers, each of ten
# pings, one in a second, gives back what one lost response took. The last of these is counted when it has timed out.
RECOVERY_MAX_S = 2 * 1.25 + 0.5 + 10 * 1.25 + 1
PUSHES_MAX = 8  # discovery's own PUTs


def both_carry(parts):
    return parts and all(0.35 <= part <= 0.65 for part in parts)


def rails_share(lab):
    """Two healthy rails, found by discovery, carry half of the messages each."""
    a, b = make_namespaces(lab)
    start_server(lab, b)
    loader = start_load(lab, a, "--operations", "4000", "--bytes", "1000", "--in-flight", "8")
    check(loader.wait(60) == 0, "the loader failed")
    report = report_of(loader)
    check(report["kinds"]["put"]["ok"] == 4000, f"not all ended well: {report['kinds']}")
    sent = {ni["nid"]: ni["sent_put"] for ni in report["node"]["nis"]}
    total = sum(sent.values())
    for nid in NIDS["a"]:
        check(abs(sent[nid] / total - 0.5) <= 0.02, f"shares of the rails: {sent}")


def cut_and_mend(lab, how, told=False):
    """A load during which a rail is cut, and mended when the cut has been noticed."""
    silently = how == "silently"
    a, b = make_namespaces(lab)
    server = start_server(lab, b, told=told)
    loader = start_load(lab, a, "--bytes", "1048576", "--in-flight", str(IN_FLIGHT), told=told)
    wait_for_load(loader)
    parts = shares(a, 1)
    check(both_carry(parts), f"shares of the rails before the cut: {parts}")

    cut_s = cut_rail(a, silently)
    time.sleep(LND_TIMEOUT_S + 2)  # the cut rail's connections have been given up by now
    parts = shares(a, 1)
    check(parts and parts[1] < 0.05, f"shares of the rails while the second is cut: {parts}")
    mended_s = mend_rail(a, silently)
    worst_s = max(mended_s, cut_s + NOTICED_S[how] + TRANSACTION_TIMEOUT_S)
    wait_until(lambda: both_carry(shares(a, 0.5)), worst_s - mended_s + RECOVERY_MAX_S, "both rails carry load again")
    print(f"    both rails carry load again {time.monotonic() - mended_s:.1f} s after it was mended")
    report = stop_load(loader)
    stall_ms, put = report["longest_stall"]["ms"], report["kinds"]["put"]
    print(f"    {put['started']} operations, {report['node']['resend_count']} sent again, {len(report['failures'])} "
          f"ended by time-out; nothing ended well for {stall_ms} ms")
    check(not report["faults"], f"faults: {report['faults']}")
    check(stall_ms <= STALL_MAX_MS[how], f"nothing ended well for {stall_ms} ms")
    check_ends(report, cut_s, cut_s + NOTICED_S[how])
    check_resends(report, received_puts(server), 0 if told else PUSHES_MAX)


def check_ends(report, cut_s, noticed_s):
    """Each operation has ended once, and those that failed had to."""
    put, node, failures = report["kinds"]["put"], report["node"], report["failures"]
    check(put["started"] == put["ok"] + len(failures), f"not each ended once: {put}")
    for failure in failures:
        check(failure["error"] == "ETIMEDOUT", f"failed, but not for want of a response: {failure}")
        check("sent_s" in failure, f"timed out, though it was never fully written: {failure}")
        check(failure["sent_s"] <= noticed_s, f"fully written {failure['sent_s'] - cut_s} s after the cut")
        check(failure["started_s"] <= noticed_s, f"lost, though started {failure['started_s'] - cut_s} s after the cut")
        took = failure["ended_s"] - failure["started_s"]
        check(-0.01 <= took - TRANSACTION_TIMEOUT_S <= 1, f"ended after {took} s: {failure}")
    check(node["response_timeouts"] == len(failures), f"time-outs counted: {node['response_timeouts']}")
    for ni in node["nis"] + node["peer_nis"]:
        check(ni["credits_missing"] == 0 and ni["waiting"] == 0, f"credits are missing: {ni}")


def check_resends(report, received, others_max):
    """What was sent again was not sent twice: as many PUTs were written whole as the loader was told, and the other
    node has received those that ended well, perhaps those whose ACK was lost, and none a second time."""
    put, node = report["kinds"]["put"], report["node"]
    check(node["resend_count"] >= node["resent_well"] > 0,
          f"sent again: {node['resend_count']}, {node['resent_well']} well")
    check(node["resent_in_vain"] == 0, f"sent again in vain: {node['resent_in_vain']}")
    written = sum(ni["sent_put"] for ni in node["nis"])
    check(0 <= written - put["sent"] <= others_max,
          f"{written} PUTs were written, the loader was told of {put['sent']}")
    check(put["ok"] <= received <= put["started"] + others_max, f"{received} PUTs arrived: {put}")


def rail_silent(lab):
    """Nothing passes any more, while the link looks well."""
    cut_and_mend(lab, "silently")


def rail_without_carrier(lab):
    """The plug is pulled."""
    cut_and_mend(lab, "by carrier")


def rail_silent_told(lab):
    """As rail_silent, between nodes that were told of each other by `peer:` and do not discover."""
    cut_and_mend(lab, "silently", told=True)


run(rails_share, rail_silent, rail_without_carrier, rail_silent_told)
