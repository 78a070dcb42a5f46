"""Builds muster_torch against the installed torch, with libmuster linked statically."""

import os
import pathlib
import shutil
import subprocess
import sys


def find_torch():
    """pip builds in an environment of its own, where torch is missing: adds the folders of the one that it installs into."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError:
        outer = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONNOUSERSITE")}
        command = [sys.executable, "-c", "import torch, sys; print(*sys.path, sep='\\n')"]
        found = subprocess.run(command, env=outer, cwd=os.sep, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if found.returncode:
            sys.exit("muster_torch is built against the installed torch: install torch first. Tools other than pip may need --no-build-isolation.")
        sys.path += [folder for folder in found.stdout.splitlines() if folder and folder not in sys.path]


find_torch()
import torch  # noqa: E402
from setuptools import setup  # noqa: E402
from torch.utils.cpp_extension import BuildExtension, CppExtension  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def build_archive():
    """libmuster.a: MUSTER_ARCHIVE, or built here."""
    if given := os.environ.get("MUSTER_ARCHIVE"):
        return given
    build = HERE / "build" / "muster"
    options = [f"-DMUSTER_BUILD_{part}=OFF" for part in ("TOOL", "EXAMPLES", "TESTS", "TLS")]
    options.append(f"-DMUSTER_BUILD_BACKENDS={'ON' if torch.version.cuda else 'OFF'}")
    targets = ["muster_static", *(["mst_backend_nccl"] if torch.version.cuda else [])]
    subprocess.run(["cmake", "-S", ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=Release", *options], check=True)
    subprocess.run(["cmake", "--build", build, "-j", str(os.cpu_count()), "--target", *targets], check=True)
    return str(build / "lib" / "libmuster.a")


class Build(BuildExtension):
    """Copies the backend nccl to where libmuster looks for it, beside the extension. A torch without CUDA does not need it."""

    def run(self):
        super().run()
        module = pathlib.Path(archive).parent / "muster" / "mst_backend_nccl.so"
        place = pathlib.Path(self.get_ext_fullpath("muster_torch._C")).parent / "muster"
        if torch.version.cuda and module.exists():
            place.mkdir(exist_ok=True)
            shutil.copy(module, place)


def unite():
    """One source that includes all, because the headers of torch take most of the time: a relative path."""
    united = HERE / "build" / "muster_torch.cpp"
    united.parent.mkdir(exist_ok=True)
    text = "".join(f'#include "{path}"\n' for path in sorted((HERE / "csrc").glob("*.cpp")))
    if not united.exists() or united.read_text() != text:
        united.write_text(text)
    return str(united.relative_to(HERE))


# torch 2.15 loads the entry point named like the backend; older ones call those of this group at the end of "import torch".
GROUP = "torch.distributed.backends" if torch.__version__ >= (2, 15) else "torch.backends"
archive = build_archive()

setup(
    name="muster_torch",
    version="0.2.0",
    description="muster as a backend of torch.distributed",
    packages=["muster_torch"],
    ext_modules=[
        CppExtension(
            "muster_torch._C",
            [unite()],
            include_dirs=[str(ROOT / "include")],
            extra_objects=[archive],
            depends=[archive, *map(str, (HERE / "csrc").glob("*.?pp"))],
            extra_compile_args=["-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-fvisibility=hidden"],
            extra_link_args=["-Wl,--exclude-libs,libmuster.a"],
        )
    ],
    cmdclass={"build_ext": Build},
    options={"build": {"build_base": f"build/torch-{torch.__version__}"}},  # what was built for another torch is of no use
    entry_points={GROUP: ["muster = muster_torch:register"]},
)
