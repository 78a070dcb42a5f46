#!/usr/bin/env python3
"""bench_table.py DOCUMENT JSON... - writes the results of `muster bench` into a document, between its two marks.

The files come from the option --json of the operations and of the limits. The first backend of a file is compared with the others. The
same results on the same machine give the same text.
"""

import json
import math
import os
import platform
import re
import subprocess
import sys

BEGIN, END = "<!-- make bench: begin -->", "<!-- make bench: end -->"
VERSIONS = {  # backend: name for readers, command
    "native": ("muster", (os.path.join(os.environ.get("MUSTER_BUILD_DIR", "build"), "bin", "muster"), "--version")),
    "openmpi": ("Open MPI", ("mpirun.openmpi", "--version")),
    "mpich": ("MPICH", ("mpirun.mpich", "--version")),
    "gloo": ("Gloo (Debian)", ("dpkg-query", "-W", "-f=${Version}", "libgloo0")),
}
LIMITS = {
    "copy_GBps": "copy (memcpy), GB/s",
    "add_GBps": "add (c += a, f32), GB/s",
    "tcp_GBps": "TCP on loopback, both ways, GB/s",
    "line_us": "a cache line from one processor to another, us",
    "tcp_us": "a byte over TCP on loopback, us",
}


def first_match(path, pattern):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = re.search(pattern, file.read(), re.M)
    except OSError:
        return None
    return found[1].strip() if found else None


def version_of(command):
    try:
        out = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\d+(\.\d+)+\S*", out)
    return found[0] if found else None


def processor():
    tool = os.path.join(os.environ.get("MUSTER_BUILD_DIR", "build"), "bin", "muster")
    try:
        done = subprocess.run((tool, "info", "--json"), capture_output=True, text=True, timeout=20, check=True)
        return json.loads(done.stdout)["machine"]["cpu"]
    except (OSError, subprocess.SubprocessError):
        return first_match("/proc/cpuinfo", r"^model name\s*:\s*(.*)$") or "unknown"


def machine_name():
    return f"{len(os.sched_getaffinity(0))} cores, {processor()} ({platform.machine()})"


def version_of_backends(backends):
    found = [(name, version_of(command)) for backend, (name, command) in VERSIONS.items() if backend in backends]
    return ", ".join(f"{name} {version}" for name, version in found if version)


def machine():
    memory = first_match("/proc/meminfo", r"^MemTotal:\s*(\d+)")
    system = first_match("/etc/os-release", r'^PRETTY_NAME="?([^"\n]*)') or platform.system()
    size = f", {round(int(memory) / 2**20)} GiB of memory" if memory else ""
    return f"{machine_name()}{size}; {system}, Linux {platform.release()}; {version_of_backends(VERSIONS)}."


def digits(x):
    """Formats a number with three significant digits."""
    return f"{x:.{2 if x < 10 else 1 if x < 100 else 0}f}"


def size_name(n):
    for unit, name in ((2**20, "MiB"), (2**10, "KiB")):
        if n >= unit and n % unit == 0:
            return f"{n // unit} {name}"
    return f"{n} B"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def step_of(line):
    """Returns the row of a size. Blocks make the smallest sizes slightly larger; they share a row with the requested size."""
    return 0 if line["bytes"] == 0 else round(math.log2(line["bytes"] / 4) / 2)


def figures(lines, ops):
    rows = []
    for step in sorted({step_of(line) for line in lines}):
        here = {line["op"]: line for line in lines if step_of(line) == step}
        name = size_name(min(line["bytes"] for line in here.values()))
        row = [name]
        for op in ops:
            line = here.get(op)
            fastest = [digits(min(line["ratio_to"].values())) + "×"] if line and line["ratio_to"] else []
            row.append(", ".join([digits(line["us_median"])] + fastest) if line else "–")
        rows.append(row)
    return table(["bytes"] + ops, rows)


def columns(others):
    """Returns the backends of each column: each alone, the MPIs as installed, and these with other settings (NAME:SETTING)."""
    installed = [o for o in others if o in ("openmpi", "mpich")]
    tuned = [o for o in others if o.split(":")[0] in installed]
    found = {other: [other] for other in others if other not in tuned or other in installed}
    if len(installed) > 1:
        found["faster MPI"] = installed
    if len(tuned) > len(installed):
        found["fastest MPI, tuned"] = tuned
    return found


def means(lines, ops, others):
    rows = []
    for op in ops + ["all"]:
        row = [op]
        for some in columns(others).values():
            here = [l["ratio_to"] or {} for l in lines if op in (l["op"], "all")]
            ratios = [min(r[o] for o in some if o in r) for r in here if any(o in r for o in some)]
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
            row.append(f"{digits(mean)}×, {digits(min(ratios))}×" if ratios else "–")
        rows.append(row)
    return table(["geometric mean, worst"] + list(columns(others)), rows)


def case(lines, setting):
    """Returns the tables of one setting: its first backend, compared with the others."""
    dtype, ranks, hosts, buffers = setting
    first = lines[0]["backend"]
    others = list(dict.fromkeys(l["backend"] for l in lines if l["backend"] != first))
    mine = [l for l in lines if l["backend"] == first]
    barrier = [l for l in mine if l["op"] == "barrier"]
    sized = [l for l in mine if l["op"] != "barrier"]
    ops = list(dict.fromkeys(l["op"] for l in sized))
    place = f"{hosts} simulated hosts" if hosts > 1 else "one host"
    against = f", then the time of the fastest other backend relative to it ({', '.join(others)})" if others else ""
    out = [f"**{ranks} ranks, {place}, {dtype}, {buffers} buffers.** {first}, microseconds{against}.", ""]
    out += figures(sized, ops) + [""]
    if barrier:
        ratios = [f"{digits(barrier[0]['ratio_to'][o])}× ({o})" for o in others if o in (barrier[0]["ratio_to"] or {})]
        out += [f"Barrier: {', '.join([digits(barrier[0]['us_median']) + ' us'] + ratios)}.", ""]
    return out + (means(mine, ops + (["barrier"] if barrier else []), others) + [""] if others else [])


def operations(lines):
    settings, out = {}, []
    separate = {line["op"] for line in lines if not line.get("in_place")}
    for line in lines:
        if line.get("in_place") and line["op"] in separate:
            continue  # a table has one form of an operation
        key = (line["dtype"], line["ranks"], line["hosts"], line["buffers"])
        settings.setdefault(key, []).append(line)
    for key, some in settings.items():
        out += case(some, key)
    wrong = sum(line["wrong"] for line in lines)
    return out + ([f"**{wrong} elements were wrong.**", ""] if wrong else [])


def limits(lines):
    counts = sorted({line["processes"] for line in lines})
    past = {n: max(l["bytes"] for l in lines if l["processes"] == n) for n in counts}
    rows = {}
    for line in lines:
        n = line["processes"]
        size = line["bytes"] if line["limit"].endswith("GBps") else 0
        name = "larger than the caches" if size == past[n] and size >= 2**20 else size_name(size) if size else ""
        rows.setdefault((line["limit"], name), {})[n] = line["value"]
    order = [key for limit in LIMITS for key in rows if key[0] == limit]
    names = [LIMITS[k[0]] if i == 0 or order[i - 1][0] != k[0] else "" for i, k in enumerate(order)]
    values = [[digits(rows[k][n]) if rows[k].get(n) else "" for n in counts] for k in order]
    body = [[name, k[1]] + some for name, k, some in zip(names, order, values, strict=True)]
    return ["**Limits of the machine** (`muster bench limits`), all processes at once.", ""] + table(
        ["", "bytes each"] + [f"{n} process{'es' if n > 1 else ''}" for n in counts], body
    )


def read(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def main(document, *paths):
    files = [read(path) for path in paths]
    block = [machine(), ""]
    for lines in files:
        if lines and "limit" in lines[0]:
            block += limits(lines) + [""]
        elif lines:
            block += operations(lines)
    with open(document, encoding="utf-8") as file:
        text = file.read()
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        sys.exit(f"bench_table.py: {document} must have one {BEGIN} and then one {END}")
    head, tail = text[: text.index(BEGIN)], text[text.index(END) :]
    with open(document, "w", encoding="utf-8") as file:
        file.write(head + BEGIN + "\n" + "\n".join(block).rstrip() + "\n" + tail)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
