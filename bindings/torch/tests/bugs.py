"""Shows that values.py detects bugs: builds a copy of the backend with deliberate ones and runs it with each.

  bugs.py [--ranks 3] [BUG…]   MUSTER_ARCHIVE names libmuster.a, else it is built

Environment BUG selects the bug in the copy, so it is built once. Writes which part detects each bug first.
"""

import argparse
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PARTS = (
    "all_reduce", "averages", "reduce", "broadcast", "all_gather", "gather_and_scatter", "reduce_scatter", "all_to_all", "coalesced", "messages",
    "tags", "dropped", "sparse", "groups", "works",
)  # fmt: skip
PATIENCE = 120  # seconds; a bug may also block a call

# name, file, text, what replaces it; {bug} is true if the bug is selected
BUGS = (
    ("wrong_operator", "tensors.cpp", "static_cast<mst_op>(op.op_)", "({bug} && op.op_ == c10d::ReduceOp::MIN ? MST_MAX : {text})"),
    ("avg_is_not_divided", "tensors.cpp", "static_cast<mst_op>(op.op_)", "({bug} && op.op_ == c10d::ReduceOp::AVG ? MST_SUM : {text})"),
    ("factor_is_lost", "tensors.cpp", "factor->double_factor", "({bug} ? 1.0 : {text})"),
    ("not_copied_back", "on_device.cpp", "at::Tensor(to).copy_(", "if (!{bug}) {text}"),
    ("splits_are_swapped", "collectives.cpp", "made.in_splits = in_counts", "made.in_splits = ({bug} ? out_counts : in_counts)"),
    ("wrong_block", "collectives.cpp", "addresses(each(output, output_lists[0], &call.operation));", "{text} if ({bug}) std::reverse(outs.begin(), outs.end());"),
    ("wrong_root", "collectives.cpp", "made.root = root;", "made.root = {bug} ? 0 : root;"),
    ("tag_is_ignored", "backend.cpp", "call.tag = tag;", "call.tag = {bug} ? 0 : tag;"),
    ("sender_is_lost", "work.cpp", "return state_->sender;", "return {bug} ? 0 : state_->sender;"),
    ("tensors_are_freed", "work.cpp", "state_->operation = std::move(operation);", "if ({bug}) operation.tensors.clear(); {text}"),
    ("wait_returns_at_once", "work.cpp", "bool wait(std::chrono::milliseconds timeout) {", "{text} if ({bug}) return true;"),
)  # fmt: skip
SELECTED = '''#pragma once
#include <cstdlib>
#include <cstring>
static bool is_bug(const char *name) {
    const char *selected = std::getenv("BUG");
    return selected && !std::strcmp(selected, name);
}
'''


def insert(folder):
    """Puts all bugs into the copy of the sources."""
    for path in folder.glob("*.cpp"):
        text, bugs = path.read_text(), [bug for bug in BUGS if bug[1] == path.name]
        for name, _, right, wrong in bugs:
            if right not in text:
                sys.exit(f"bugs.py: {path.name} has no {right!r} for {name}")
            text = text.replace(right, wrong.replace("{text}", right).replace("{bug}", f'is_bug("{name}")'))
        path.write_text('#include "selected.hpp"\n' + text if bugs else text)
    (folder / "selected.hpp").write_text(SELECTED)


def build(folder):
    """Builds the copy, and returns the folder of the package."""
    root, copy = HERE.parents[2], folder / "bindings/torch"
    shutil.copytree(HERE.parent, copy, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    for name in os.listdir(root):
        if name not in ("bindings", ".git"):
            (folder / name).symlink_to(root / name)
    insert(copy / "csrc")
    subprocess.run([sys.executable, "setup.py", "-q", "build", "--build-lib", folder / "lib"], cwd=copy, check=True, stdout=subprocess.DEVNULL)
    return folder / "lib"


def find(package, bug, options):
    """The first part that a rank did not finish, or None."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "PYTHONPATH": str(package), "BACKEND": "muster", "BUG": bug, "WORLD_SIZE": str(options.ranks)}
    env.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1")
    command, files = [sys.executable, "-B", HERE / "values.py", *PARTS], [tempfile.TemporaryFile("w+") for _ in range(options.ranks)]
    started = [subprocess.Popen(command, env={**env, "RANK": str(r)}, stdout=file, stderr=subprocess.STDOUT) for r, file in enumerate(files)]
    end, done = time.monotonic() + PATIENCE, len(PARTS)
    for process, file in zip(started, files):
        try:
            process.wait(max(1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        file.seek(0)
        out = file.read()
        done = min(done, out.count(": right\n"))
        if options.verbose and process.returncode:
            print(out, file=sys.stderr)
        if process.returncode:
            end = min(end, time.monotonic() + 5)  # the others may wait for this rank
    return PARTS[done] if done < len(PARTS) else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bugs", nargs="*")
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--verbose", action="store_true", help="show the output of ranks that failed")
    options = parser.parse_args()
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        package = build(pathlib.Path(folder))
        for name in ["none", *(options.bugs or [bug[0] for bug in BUGS])]:
            found = find(package, name, options)
            print(f"{name:22}{found or 'nothing found'}", flush=True)
            if bool(found) == (name == "none"):
                missed.append(name)
    sys.exit(f"bugs.py: wrong: {', '.join(missed)}" if missed else 0)


if __name__ == "__main__":
    main()
