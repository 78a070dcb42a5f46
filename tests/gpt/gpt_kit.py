"""Runs the program examples/gpt, alone and under muster run, and parses its output."""

import os
import pathlib
import re
import subprocess

BIN = pathlib.Path(os.environ["MUSTER_BUILD_DIR"]) / "bin"
# Every size can be split over a mesh of eight processes.
TINY = ["--layers", "8", "--width", "32", "--heads", "8", "--context", "32", "--batch", "8", "--every", "1",
        "--digits", "9", "--clip", "0.5"]  # fmt: skip


def ranks_of(mesh):
    n = 1
    for size in re.findall(r"=(\d+)", mesh or ""):
        n *= int(size)
    return n


def command(mesh, *arguments, run=()):
    """The command line of a run with this mesh; a single process runs without a launcher."""
    launcher = [BIN / "muster", "run", "-n", ranks_of(mesh), *run] if ranks_of(mesh) > 1 else []
    return [str(a) for a in [*launcher, BIN / "gpt", *arguments, *(["--mesh", mesh] if mesh else [])]]


def start(line, **options):
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="latin-1", **options)


def output(line, **options):
    process = start(line, **options)
    try:
        out, err = process.communicate(timeout=100)
    finally:
        process.kill()
    if process.returncode:
        raise AssertionError(f"{' '.join(line)}: status {process.returncode}: {err}")
    return out


def losses(text):
    """The printed losses by step; of a step that was repeated, the last one."""
    return {int(step): loss for step, loss in re.findall(r"step +(\d+) +loss ([\d.]+)", text)}


def max_difference(one, other):
    """The largest relative difference of two curves."""
    return max(abs(float(one[step]) / float(other[step]) - 1) for step in one)
