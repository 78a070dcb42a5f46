"""tree.py - which files are the project's."""

import subprocess


def project_files(root):
    """Returns the names of the tracked and new files; outside of a repository, all that are not hidden or built."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    git = subprocess.run(command, capture_output=True, text=True, check=False)
    if git.returncode == 0:
        names = set(git.stdout.split("\0"))
    else:
        names = {path.relative_to(root).as_posix() for path in root.rglob("*")}
        names = {name for name in names if not name.startswith(("build", ".")) and "/." not in name}
    return sorted(name for name in names if name and (root / name).is_file())
