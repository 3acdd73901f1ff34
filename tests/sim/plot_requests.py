#!/usr/bin/env python3
"""Draws what RPC clients did: `plot_requests.py LABEL=CSV... > FILE.svg`

Each CSV is written by `ulnet_sim SCENARIO --csv CSV`; one panel for each, below each other, on the same axes: requests
per second over time, and a shaded band where every request failed.
"""

import csv
import sys

WIDTH, PANEL, GAP = 860, 190, 56
LEFT, RIGHT, TOP = 62, 20, 52
X_STEP_S, Y_STEP = 200, 100
STYLE = """text{font:13px sans-serif;fill:#333} .title{font-size:15px;font-weight:bold} .grid{stroke:#ddd}
.axis{stroke:#888} .away{fill:#888;fill-opacity:.13} .rate{fill:none;stroke:#1f5fa8;stroke-width:1.3}"""


def read(path):
    """Returns requests and successes of each second."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [int(row["requests"]) for row in rows], [int(row["succeeded"]) for row in rows]


def away(requests, succeeded):
    """The longest stretch without a success, as first and last second, or None when it is short."""
    best, begin = (0, 0), None
    for second in range(len(requests) + 1):
        silent = second < len(requests) and succeeded[second] == 0
        if silent and begin is None:
            begin = second
        elif not silent and begin is not None:
            best, begin = max(best, (begin, second), key=lambda span: span[1] - span[0]), None
    return best if best[1] - best[0] > 10 else None


def panel(label, requests, succeeded, top, x_of, y_of):
    bottom = top + PANEL
    out = [f'<text class="title" x="{LEFT}" y="{top - 10}">{label}</text>']
    span = away(requests, succeeded)
    if span:
        out.append(f'<rect class="away" x="{x_of(span[0]):.1f}" y="{top}" '
                   f'width="{x_of(span[1]) - x_of(span[0]):.1f}" height="{PANEL}"/>')
        out.append(f'<text x="{x_of(span[0]) + 6:.1f}" y="{top + 16}">no request succeeds</text>')
    for rate in range(0, int(PANEL / (y_of(0) - y_of(1))) + 1, Y_STEP):
        y = top + y_of(rate)
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        out.append(f'<text text-anchor="end" x="{LEFT - 8}" y="{y + 4:.1f}">{rate}</text>')
    for second in range(0, len(requests) + 1, X_STEP_S):
        out.append(f'<text text-anchor="middle" x="{x_of(second):.1f}" y="{bottom + 18}">{second}</text>')
    points = " ".join(f"{x_of(second):.1f},{top + y_of(rate):.1f}" for second, rate in enumerate(requests))
    out.append(f'<polyline class="rate" points="{points}"/>')
    out.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>')
    return out


def draw(series):
    seconds = max(len(requests) for _, (requests, _) in series)
    highest = 1.1 * max(max(requests) for _, (requests, _) in series)
    height = TOP + len(series) * (PANEL + GAP)

    def x_of(second):
        return LEFT + (WIDTH - LEFT - RIGHT) * second / seconds

    def y_of(rate):
        return PANEL * (1 - rate / highest)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
           f"<style>{STYLE}</style>", f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
           f'<text x="{LEFT}" y="20">requests per second, by seconds</text>']
    for index, (label, (requests, succeeded)) in enumerate(series):
        out += panel(label, requests, succeeded, TOP + index * (PANEL + GAP), x_of, y_of)
    return "\n".join(out + ["</svg>", ""])


def main():
    pairs = [argument.partition("=") for argument in sys.argv[1:]]
    if not pairs or not all(path for _, _, path in pairs):
        sys.exit(__doc__)
    sys.stdout.write(draw([(label, read(path)) for label, _, path in pairs]))


if __name__ == "__main__":
    main()
