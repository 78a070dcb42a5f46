"""Builds muster_torch against the installed torch, with libmuster linked statically."""

import os
import pathlib
import subprocess

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def build_archive():
    """libmuster.a: MUSTER_ARCHIVE, or built here."""
    if given := os.environ.get("MUSTER_ARCHIVE"):
        return given
    build = HERE / "build" / "muster"
    options = [f"-DMUSTER_BUILD_{part}=OFF" for part in ("TOOL", "EXAMPLES", "TESTS", "BACKENDS", "TLS")]
    subprocess.run(["cmake", "-S", ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=Release", *options], check=True)
    subprocess.run(["cmake", "--build", build, "-j", str(os.cpu_count()), "--target", "muster_static"], check=True)
    return str(build / "lib" / "libmuster.a")


archive = build_archive()

setup(
    name="muster_torch",
    version="0.2.0",
    description="muster as a backend of torch.distributed",
    packages=["muster_torch"],
    ext_modules=[
        CppExtension(
            "muster_torch._C",
            sorted(str(path.relative_to(HERE)) for path in (HERE / "csrc").glob("*.cpp")),
            include_dirs=[str(ROOT / "include")],
            extra_objects=[archive],
            depends=[archive, *map(str, (HERE / "csrc").glob("*.hpp"))],
            extra_compile_args=["-O2", "-Wall", "-Wextra", "-Wno-unused-parameter"],
            extra_link_args=["-Wl,--exclude-libs,libmuster.a"],
        )
    ],
    cmdclass={"build_ext": BuildExtension},
    entry_points={"torch.distributed.backends": ["muster = muster_torch:register"]},
)
