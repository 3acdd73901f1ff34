#!/usr/bin/env python3
"""The demo's second part: two nodes with two rails between network namespaces, one of which is cut under load.

Usage: two_rails.py BIN_DIR; may make namespaces. Exit status: 0 when nothing was lost.
"""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "netns"))
import rails  # pylint: disable=wrong-import-position
from lab import Failure, Lab, wait_until  # pylint: disable=wrong-import-position

# Short times, so that the demo is; and one answered ping is enough to trust a rail again.
TIMES = {"lnd_timeout_s": 2, "transaction_timeout": 7, "health_sensitivity": 1000}


def percent(parts):
    return " / ".join(f"{part * 100:.0f} %" for part in parts)


def show(lab):
    a, b = rails.make_namespaces(lab)
    rails.start_server(lab, b, **TIMES)
    loader = rails.start_load(lab, a, "--bytes", "1048576", "--in-flight", "32", **TIMES)
    rails.wait_for_load(loader)
    target = rails.NIDS["b"][0]
    print(f"  PUT+ACK of 1 MiB, 32 at a time, to {target}; discovery finds the second rail", flush=True)
    before = rails.shares(a, 1)
    rails.cut_rail(a, silently=True)
    print("  rail 2 is cut: nothing passes, and the link still looks well", flush=True)
    time.sleep(TIMES["lnd_timeout_s"] + 1)
    during = rails.shares(a, 1)
    mended = rails.mend_rail(a, silently=True)
    wait_until(lambda: min(rails.shares(a, 0.5) or [0]) > 0.35, 10, "both rails carry load again")
    back = time.monotonic() - mended
    after = rails.shares(a, 1)
    report = rails.stop_load(loader)
    put, node = report["kinds"]["put"], report["node"]
    timed_out = put["failed"].get("ETIMEDOUT", 0)
    lost = put["started"] - put["ok"] - timed_out
    print(f"  stall {report['longest_stall']['ms']} ms; of {put['started']} operations {node['resend_count']} resent, "
          f"{timed_out} ended by time-out, {lost} lost")
    print(f"  shares of the rails: before {percent(before)}, during {percent(during)}, after {percent(after)}, "
          f"{back:.1f} s after the repair")
    return 0 if lost == 0 and not report["faults"] else 1


def main():
    try:
        with Lab(sys.argv[1]) as lab:
            return show(lab)
    except Failure as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        return 1


sys.exit(main())
