#!/usr/bin/env python3
"""fresh_debian.py [--keep] - follows README.md and docs/tutorial.md in a new Debian that has only git and make.

Makes a minimal Debian of this machine's release with debootstrap in a temporary folder, from this machine's own apt
sources, clones the last commit there, and carries out the commands of both documents, except `make test`. The outputs
must be those of the documents. It needs root and debootstrap, takes some minutes, and leaves nothing behind; --keep keeps
the folder. Exit status 77: it cannot run here, for the printed reason.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/install"))
from documented import Shell, read_documents  # noqa: E402

# Mounts and processes live in namespaces of the shell and end with it.
ENTER = """
mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount -t tmpfs tmpfs "$1/tmp" &&
exec chroot "$1" /usr/bin/env -i HOME=/root LANG=C.UTF-8 PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${@:2}" bash
"""
PROXIES = ("http_proxy", "https_proxy", "no_proxy")


def skip(reason):
    print(f"fresh: skipped: {reason}")
    sys.exit(77)


def command_output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def apt_source():
    """Returns the release of this machine and the first address from which its apt gets it."""
    release = command_output("sh", "-c", '. /etc/os-release && echo "$VERSION_CODENAME"').strip()
    for line in command_output("apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)").splitlines():
        name, _, address = line.partition(" ")
        if name == release:
            return release, address
    skip("apt has no source of this machine's release")


def make_system(folder):
    release, address = apt_source()
    log = folder / "debootstrap.log"
    with log.open("w") as file:
        command = ["debootstrap", "--variant=minbase", "--include=git,make", release, folder / "root", address]
        if subprocess.run(command, stdout=file, stderr=subprocess.STDOUT).returncode != 0:
            skip("debootstrap failed:\n" + "".join(log.read_text().splitlines(True)[-5:]))
    root = folder / "root"
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    shutil.copy(ROOT / "tests/install/ssh.sh", root / "usr/local/bin/ssh")
    (root / "usr/local/bin/ssh").chmod(0o755)
    repository = root / "srv/muster.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", repository], check=True)
    subprocess.run(["git", "-C", ROOT, "push", "-q", repository, "HEAD:refs/heads/main"], check=True)
    (root / "root/.gitconfig").write_text("[safe]\n\tdirectory = *\n")
    return root


def open_shell(root):
    proxies = [f"{name}={os.environ[name]}" for name in PROXIES if name in os.environ]
    process = subprocess.Popen(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", ENTER, "bash", root, *proxies],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    return Shell(process, {r"<url>": "/srv/muster.git", r"^make test\b.*": ":"}, deadline=1800)


def follow(shell, block):
    start = time.monotonic()
    shell.follow(block)
    if block.language in ("sh", "console"):
        print(f"fresh: {block.path.name}:{block.line}: {time.monotonic() - start:.1f} s", flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--keep", action="store_true")
    keep = options.parse_args().keep
    if os.geteuid() != 0:
        skip("needs root")
    for tool in ("debootstrap", "unshare", "chroot", "apt-get"):
        if not shutil.which(tool):
            skip(f"needs {tool}")
    folder, shell, start = pathlib.Path(tempfile.mkdtemp(prefix="muster-fresh-", dir="/var/tmp")), None, time.monotonic()
    readme, tutorial = read_documents(ROOT)
    try:
        root = make_system(folder)
        print(f"fresh: a new Debian: {time.monotonic() - start:.0f} s", flush=True)
        shell = open_shell(root)
        shell.run("cd")
        for block in readme:
            follow(shell, block)
        shell.run("cd ~/muster")
        for block in tutorial:
            follow(shell, block)
        if shell.wrong:
            sys.exit(shell.differences())
        print(f"fresh: all outputs are those of the documents: {time.monotonic() - start:.0f} s")
    except AssertionError as error:
        sys.exit(f"fresh: {error}")
    finally:
        if shell:
            shell.close()
        if keep:
            print(f"fresh: kept {folder}")
        else:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
