#!/usr/bin/env python3
"""bench_chart.py [--note TEXT] PICTURE JSON [OPERATION ...] - draws the times of `muster bench --json` over the message size, for the README.

There is a panel for each operation (default: all_reduce and send_recv) and a line for each backend, with logarithmic axes. The picture
has its own background, so that it is readable on light and dark pages. TEXT follows the caption. The same results on the same machine give the same picture.
"""

import argparse
import math
import re
import sys
from xml.sax.saxutils import escape

from bench_table import machine_name, read, size_name, version_of_backends

WIDTH, PANEL_TOP, PANEL_HEIGHT, LEFT, GAP, RIGHT = 800, 96, 250, 64, 44, 36
BACKENDS = {"native": "muster", "openmpi": "Open MPI", "mpich": "MPICH", "gloo": "Gloo", "torch": "torch gloo"}
STYLE = """
svg { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 12px; fill: #24292f }
.back { fill: #ffffff; stroke: #d0d7de } .grid { stroke: #e5e8eb } .soft { fill: #57606a }
.title { font-size: 16px; font-weight: 600 } .panel { font-weight: 600; font-size: 13px } .end { text-anchor: end }
.middle { text-anchor: middle } .line { fill: none; stroke-width: 2; stroke-linejoin: round } .line.native { stroke-width: 3.5 }
.native { stroke: #0969da } .openmpi { stroke: #d4720b } .mpich { stroke: #1a7f4b } .gloo { stroke: #8250df } .torch { stroke: #bf3989 }
.dot.native { fill: #0969da } .dot.openmpi { fill: #d4720b } .dot.mpich { fill: #1a7f4b } .dot.gloo { fill: #8250df }
.dot.torch { fill: #bf3989 } .dot { stroke: none }
@media (prefers-color-scheme: dark) {
  svg { fill: #e6edf3 } .back { fill: #0d1117; stroke: #30363d } .grid { stroke: #262c34 } .soft { fill: #9aa4af }
  .native { stroke: #58a6ff } .openmpi { stroke: #f0a04b } .mpich { stroke: #4ac26b } .gloo { stroke: #bc8cff } .torch { stroke: #f778ba }
  .dot.native { fill: #58a6ff } .dot.openmpi { fill: #f0a04b } .dot.mpich { fill: #4ac26b } .dot.gloo { fill: #bc8cff }
  .dot.torch { fill: #f778ba }
}
"""


def time_name(us):
    for unit, name in ((1e6, "s"), (1e3, "ms"), (1, "µs")):
        if us >= unit:
            return f"{us / unit:g} {name}"
    return f"{us * 1e3:g} ns"


class Panel:
    """One operation: its place in the picture and the ranges of the axes, as powers of 2 and of 10."""

    def __init__(self, left, width, sizes, times):
        self.left, self.width = left, width
        self.x = (math.log2(min(sizes)), math.log2(max(sizes)) if max(sizes) > min(sizes) else math.log2(max(sizes)) + 1)
        self.y = (math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)) + 1e-9))

    def place(self, size, us):
        x = self.left + (math.log2(size) - self.x[0]) / (self.x[1] - self.x[0]) * self.width
        y = PANEL_TOP + PANEL_HEIGHT * (1 - (math.log10(us) - self.y[0]) / (self.y[1] - self.y[0]))
        return x, y

    def axes(self, op, labels):
        bottom, out = PANEL_TOP + PANEL_HEIGHT, [f'<text class="panel" x="{self.left}" y="{PANEL_TOP - 10}">{escape(op)}</text>']
        for power in range(self.y[0], self.y[1] + 1):
            _, y = self.place(2 ** self.x[0], 10.0**power)
            out.append(f'<path class="grid" d="M{self.left} {y:.1f}h{self.width}"/>')
            if labels:
                out.append(f'<text class="soft end" x="{self.left - 8}" y="{y + 4:.1f}">{time_name(10.0**power)}</text>')
        step = max(2, math.ceil((self.x[1] - self.x[0]) / 10) * 2)
        for power in range(math.ceil(self.x[0]), math.floor(self.x[1]) + 1, step):
            x, _ = self.place(2.0**power, 10.0 ** self.y[0])
            out.append(f'<path class="grid" d="M{x:.1f} {PANEL_TOP}v{PANEL_HEIGHT}"/>')
            out.append(f'<text class="soft middle" x="{x:.1f}" y="{bottom + 18}">{size_name(2**power)}</text>')
        return out

    def line(self, backend, points):
        places = [self.place(size, us) for size, us in sorted(points)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        out = [f'<polyline class="line {backend}" points="{path}"/>']
        return out + [f'<circle class="dot {backend}" cx="{x:.1f}" cy="{y:.1f}" r="2.8"/>' for x, y in places]


def legend(backends):
    x, out = LEFT, []
    for backend in backends:
        out.append(f'<path class="line {backend}" d="M{x} 56h22"/><circle class="dot {backend}" cx="{x + 11}" cy="56" r="3.4"/>')
        out.append(f'<text x="{x + 29}" y="60">{BACKENDS[backend]}</text>')
        x += 29 + 8 * len(BACKENDS[backend]) + 26
    return out


def caption(lines, backends):
    """Three lines: what was measured, where, and the versions."""
    first = lines[0]
    through = [BACKENDS[backend] for backend in backends if backend == "gloo"]
    where = "one host" if first["hosts"] == 1 else f"{first['hosts']} simulated hosts"
    what = f"{first['ranks']} ranks on {where}, {first['dtype']}, median time, all libraries in one run"
    versions = re.sub(r"\.[0-9a-f]{7}-\d+", "", version_of_backends(backends))  # without the commit of a Debian package
    return (what + "".join(f"; {name} through muster" for name in through), machine_name(), versions)


def draw(lines, ops, note):
    lines = [line for line in lines if line["op"] in ops and line["backend"] in BACKENDS and line["bytes"] > 0]
    ops = [op for op in ops if any(line["op"] == op for line in lines)]
    if not ops:
        sys.exit("bench_chart.py: the file has no results of these operations")
    backends = [backend for backend in BACKENDS if any(line["backend"] == backend for line in lines)]
    bottom, height = PANEL_TOP + PANEL_HEIGHT, PANEL_TOP + PANEL_HEIGHT + 106
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>Time of {' and '.join(ops)} with {', '.join(BACKENDS[b] for b in backends)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="back" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        f'<text class="title" x="{LEFT}" y="32">Time of an operation by message size (lower is better)</text>',
        *legend(backends),
    ]
    width = (WIDTH - LEFT - RIGHT - GAP * (len(ops) - 1)) / len(ops)
    for i, op in enumerate(ops):
        panel = Panel(LEFT + i * (width + GAP), width, *zip(*((line["bytes"], line["us_median"]) for line in lines)))
        out += panel.axes(op, i == 0)
        for backend in reversed(backends):
            points = [(line["bytes"], line["us_median"]) for line in lines if (line["op"], line["backend"]) == (op, backend)]
            out += panel.line(backend, points) if points else []
    *texts, last = caption(lines, backends)
    for k, text in enumerate((*texts, f"{last}; {note}" if note else last)):
        out.append(f'<text class="soft" x="{LEFT}" y="{bottom + 48 + 18 * k}">{escape(text)}</text>')
    return "\n".join(out + ["</svg>", ""])


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--note")
    options.add_argument("picture")
    options.add_argument("json")
    options.add_argument("operation", nargs="*")
    given = options.parse_args()
    text = draw(read(given.json), given.operation or ["all_reduce", "send_recv"], given.note)
    with open(given.picture, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
