"""Installs into a temporary prefix and uses the result in every way that the library supports."""

import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
BUILD = pathlib.Path(os.environ.get("MUSTER_BUILD_DIR", SOURCE / "build"))
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
C11 = [os.environ.get("CC", "cc"), "-std=c11", *STRICT]
CXX20 = [os.environ.get("CXX", "c++"), "-std=c++20", *STRICT]
LAUNCH_VARIABLES = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}


def needs(*programs):
    missing = [program for program in programs if not shutil.which(program)]
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.prefix = pathlib.Path(tempfile.mkdtemp(prefix="muster-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.prefix)
        cls.environment = {
            name: value
            for name, value in os.environ.items()
            if name not in LAUNCH_VARIABLES and not name.startswith("MUSTER_")
        }
        cls.run_command("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.library = next(cls.prefix.glob("lib*/**/libmuster.so"))
        cls.environment["PKG_CONFIG_PATH"] = str(cls.library.parent / "pkgconfig")
        cls.work = cls.prefix / "work"
        cls.work.mkdir()

    @classmethod
    def run_command(cls, *command):
        done = subprocess.run(
            [str(word) for word in command],
            env=cls.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command))}\n{done.stdout}")
        return done.stdout

    def pkg_config(self, *options):
        return self.run_command("pkg-config", *options, "muster").split()

    def assert_linked(self, program, shared):
        """Checks that the program runs, and whether it needs the shared library."""
        self.run_command(program)
        self.assertEqual("libmuster.so.0.2" in self.run_command("readelf", "-d", program), shared, program)

    def each_language(self):
        yield "c", C11, HERE / "consumer.c"
        yield "cpp", CXX20, HERE / "consumer.cpp"

    def test_headers_compile_alone(self):
        names = sorted(path.name for path in (SOURCE / "include/muster").glob("*.h"))
        installed = self.prefix / "include/muster"
        self.assertEqual(names, sorted(path.name for path in installed.iterdir()))
        for name in names:
            for compiler, language in ((C11, "c"), (CXX20, "c++")):
                unit = self.work / "alone.c"
                unit.write_text(f"#include <muster/{name}>\n")
                self.run_command(*compiler, "-x", language, f"-I{self.prefix / 'include'}", "-fsyntax-only", unit)

    def test_manual_and_documents(self):
        pages = [p.name for pattern in ("*.1", "*.3", "*.7") for p in (SOURCE / "man").glob(pattern)]
        pages += [p.name for p in (BUILD / "man").glob("*.7")]
        self.assertTrue(pages)
        for page in pages:
            self.assertTrue((self.prefix / f"share/man/man{page[-1]}" / page).is_file(), page)
        documents = self.prefix / "share/doc/muster"
        for document in ("README.md", "LICENSE", "docs/api.md", "examples/01_hello.c"):
            self.assertTrue((documents / document).is_file(), document)
        self.run_command(sys.executable, "-B", SOURCE / "scripts/check_links.py", documents, self.prefix / "share/man")

    def public_names(self):
        """Returns the functions, the macros over them, the dtypes, the operations and the status codes of the headers."""
        text = "".join(path.read_text() for path in (SOURCE / "include/muster").glob("*.h"))
        functions = set(re.findall(r"^[a-z][\w *]*\b(mst_\w+)\(", text, re.M))
        tables = re.findall(r"#define MST_(?:STATUS|DTYPE|OP)_TABLE\(X\) +\\\n((?:.*\\\n)*.*)", text)
        constants = {f"MST_{name}" for table in tables for name in re.findall(r"X\(\d+, (\w+),", table)}
        self.assertGreater(len(functions), 160)
        self.assertGreater(len(constants), 50)
        return sorted(functions | {name.removesuffix("_with") for name in functions} | constants)

    @needs("man")
    def test_man_finds_every_name(self):
        names, manual = self.public_names(), self.prefix / "share/man"
        found = self.run_command("man", "-M", manual, "-w", *names).split()
        self.assertEqual(len(found), len(names))
        for name in ("mst_all_reduce", "mst_all_reduce_with", "mst_store_get", "MST_ERR_STALLED", "MST_BF16"):
            text = self.run_command("man", "-M", manual, "-P", "cat", name)
            self.assertIn(f"{name.removesuffix('_with')}", re.sub(".\b", "", text))

    @needs("mandoc", "groff")
    def test_pages_have_no_warnings(self):
        pages = [page for page in self.prefix.glob("share/man/man*/*") if not page.read_text().startswith(".so ")]
        self.assertGreater(len(pages), 25)
        self.run_command("mandoc", "-Tlint", "-W", "warning", *pages)
        self.assertEqual(self.run_command("groff", "-mandoc", "-K", "utf8", "-T", "utf8", "-ww", "-z", *pages), "")

    def test_tool(self):
        version = self.pkg_config("--modversion")[0]
        self.assertIn(version, self.run_command(self.prefix / "bin/muster", "--version"))

    def test_completion(self):
        completion = SOURCE / "tools/muster/complete"
        for shell in ("bash-completion/completions/muster", "zsh/site-functions/_muster", "fish/vendor_completions.d/muster.fish"):
            name = pathlib.Path(shell).name if "bash" not in shell else "muster.bash"
            self.assertEqual((self.prefix / "share" / shell).read_text(), (completion / name).read_text())

    def test_pkg_config_shared(self):
        rpath = f"-Wl,-rpath,{self.library.parent}"
        for name, compiler, source in self.each_language():
            program = self.work / f"shared_{name}"
            self.run_command(*compiler, source, "-o", program, *self.pkg_config("--cflags", "--libs"), rpath)
            self.assert_linked(program, shared=True)

    def test_pkg_config_static(self):
        libs = ["-Wl,-Bstatic", *self.pkg_config("--static", "--libs"), "-Wl,-Bdynamic"]
        for name, compiler, source in self.each_language():
            program = self.work / f"static_{name}"
            self.run_command(*compiler, source, "-o", program, *self.pkg_config("--cflags"), *libs)
            self.assert_linked(program, shared=False)

    def test_cmake_package(self):
        build = self.work / "project"
        prefix_path = f"-DCMAKE_PREFIX_PATH={self.prefix}"
        self.run_command("cmake", "-S", HERE / "project", "-B", build, prefix_path)
        self.run_command("cmake", "--build", build)
        for language in ("c", "cpp"):
            self.assert_linked(build / f"{language}_muster", shared=True)
            self.assert_linked(build / f"{language}_muster_static", shared=False)

    def run_documented(self, text):
        """Builds a program of the manual as the README says, and runs it with the installed tool."""
        source, program = self.work / "documented.c", self.work / "documented"
        source.write_text(text)
        rpath = f"-Wl,-rpath,{self.library.parent}"
        self.run_command(*C11, source, "-o", program, *self.pkg_config("--cflags", "--libs"), rpath)
        output = self.run_command(self.prefix / "bin/muster", "run", "-n", 3, program)
        for rank in range(3):
            self.assertIn(f"rank #{rank}:", output)
        return output

    def test_installed_example(self):
        source, program = self.prefix / "share/doc/muster/examples/05_data_parallel.c", self.work / "example"
        rpath = f"-Wl,-rpath,{self.library.parent}"
        self.run_command(*C11, source, "-o", program, *self.pkg_config("--cflags", "--libs"), "-lm", rpath)
        self.run_command(self.prefix / "bin/muster", "run", "-n", 2, program)

    def compile_call(self, compiler, suffix, call):
        """Compiles one call. Returns what the compiler reports, empty if the call is valid."""
        source = self.work / f"call{suffix}"
        source.write_text(f"#include <muster/muster.h>\nmst_status f(float *x);\nmst_status f(float *x) {{ return {call}; }}\n")
        command = [*compiler, f"-I{self.prefix / 'include'}", "-fsyntax-only", source]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stderr

    def test_compilers_report_wrong_arguments(self):
        reduce, send = "mst_all_reduce(x, 1, MST_F32{})", "mst_send(x, 1, MST_F32{})"
        order = ", .group = NULL, .op = MST_AVG"
        for call in (reduce.format(", .op = MST_AVG, .group = NULL"), send.format(", 0, .tag = 1")):
            self.assertEqual(self.compile_call(C11, ".c", call), "")
            self.assertEqual(self.compile_call(CXX20, ".cpp", call), "")
        self.assertEqual(self.compile_call(C11, ".c", reduce.format(order)), "")
        self.assertRegex(self.compile_call(CXX20, ".cpp", reduce.format(order)), "declaration order")
        self.assertIn("mst_options_must_be_named", self.compile_call(C11, ".c", reduce.format(", MST_AVG")))
        self.assertIn("designated", self.compile_call(CXX20, ".cpp", reduce.format(", MST_AVG")))
        self.assertIn("expected", self.compile_call(CXX20, ".cpp", send.format(", .tag = 1")))
        for removed in ("src", "dst", "group_src", "group_dst"):
            for compiler, suffix in ((C11, ".c"), (CXX20, ".cpp")):
                self.assertIn(removed, self.compile_call(compiler, suffix, reduce.format(f", .{removed} = 1")))
        pointer = self.compile_call(C11, ".c", "mst_alloc(4, x)")
        self.assertIn("error", pointer, "x is not the address of a pointer")

    def program_of_page(self, page):
        text = (self.prefix / "share/man" / page).read_text()
        return re.search(r"\.Bd -literal.*?\n(.*?)\.Ed", text, re.S)[1].replace("\\-", "-").replace("\\e", "\\")

    def test_manual_programs(self):
        self.assertIn("the average is 1\n", self.run_documented(self.program_of_page("man7/libmuster.7")))
        output = self.run_documented(self.program_of_page("man3/mst_pipeline.3"))
        weights = re.findall(r"stage \d of 3: (\d\.\d+)", output)
        self.assertEqual(len(weights), 3)
        self.assertAlmostEqual(math.prod(map(float, weights)), 0.5, 2)

    def test_dlopen(self):
        program = self.work / "dlopen"
        flags = self.pkg_config("--cflags")
        self.run_command(*C11, *flags, "-D_GNU_SOURCE", HERE / "dlopen.c", "-o", program, "-ldl")
        self.run_command(program, self.library)

    def test_ctypes(self):
        self.run_command(sys.executable, "-B", HERE / "ctypes_consumer.py", self.library)


if __name__ == "__main__":
    unittest.main(verbosity=2)
