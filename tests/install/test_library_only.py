"""A build of the library alone needs a C compiler, make, cmake and libc, and no other package."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("MUSTER_BUILD_DIR", SOURCE / "build"))
TOOLS = ("cc", "as", "ld", "ar", "ranlib", "make", "cmake")
HIDDEN = ("-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF", f"-DCMAKE_C_COMPILER={shutil.which('cc')}")  # /usr and the like
# Older C libraries have threads, timers and the loader in libraries of their own.
LIBC = {"c", "pthread", "rt", "dl"}
# Debian's packages with the headers of libc, Linux and the compiler.
HEADERS = re.compile(r"(libc6-dev|linux-libc-dev|libgcc-\d+-dev|libclang-common-\d+-dev)\b")


class LibraryOnly(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.work = pathlib.Path(directory.name)

    def configure(self, *options):
        """Runs cmake so that it finds nothing but TOOLS. Returns its exit status and its output."""
        tools = self.work / "bin"
        tools.mkdir(exist_ok=True)
        for name in TOOLS:
            link = tools / name
            if not link.exists():
                link.symlink_to(shutil.which(name))
        done = subprocess.run(
            [tools / "cmake", "-G", "Unix Makefiles", "-S", SOURCE, "-B", self.work / "build", *HIDDEN, *options],
            env={"PATH": str(tools), "HOME": str(self.work)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def test_without_other_packages(self):
        rc, out = self.configure()
        self.assertNotEqual(rc, 0)
        self.assertIn("cmake -DMUSTER_BUILD_TOOL=OFF", out)
        rc, out = self.configure("-DMUSTER_BUILD_TOOL=OFF")
        self.assertEqual(rc, 0, out)
        links = sorted((self.work / "build").rglob("link.txt"))
        self.assertIn("muster.dir", {link.parent.name for link in links})
        self.assertNotIn("muster_tool.dir", {link.parent.name for link in links})
        for link in links:
            found = set(re.findall(r"\s-l(\w+)", link.read_text()))
            self.assertLessEqual(found, LIBC | {"m"}, link)
        listed = (self.work / "build/cmake_install.cmake").read_text()
        self.assertNotIn("bin/muster", listed)
        self.assertNotIn("muster-run.1", listed)
        rc, out = self.configure("-DMUSTER_BUILD_TOOL=OFF", "-DMUSTER_BUILD_TESTS=ON")
        self.assertNotEqual(rc, 0)
        self.assertIn("the tests need the tool", out)

    def test_the_library_needs_libc_alone(self):
        out = subprocess.run(["readelf", "-d", BUILD / "lib/libmuster.so"], capture_output=True, text=True, timeout=60, check=True)
        needed = set(re.findall(r"NEEDED.*\[lib(\w+)\.so", out.stdout))
        self.assertIn("c", needed)
        self.assertLessEqual(needed, LIBC)

    @unittest.skipUnless(shutil.which("dpkg-query"), "dpkg-query is not installed; it tells the package of a header")
    def test_the_sources_include_headers_of_libc_alone(self):
        headers = set()
        for list_of_one in (BUILD / "CMakeFiles/muster_objects.dir").rglob("*.d"):
            headers |= {w for w in list_of_one.read_text().split() if w.startswith("/usr/")}
        self.assertTrue(headers)
        real = sorted({os.path.realpath(header) for header in headers})
        out = subprocess.run(["dpkg-query", "-S", *real], capture_output=True, text=True, timeout=60, check=False).stdout
        owners = dict(reversed(line.split(": ", 1)) for line in out.splitlines())
        for header in real:
            self.assertRegex(owners.get(header, "no package"), HEADERS, header)


if __name__ == "__main__":
    unittest.main()
