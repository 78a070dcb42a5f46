"""Release builds are hardened: each program, library and module, and each object file of the library."""

import fnmatch
import json
import os
import pathlib
import platform
import re
import subprocess
import unittest

from harness import BUILD, SANITIZED, main

CACHE = (BUILD / "CMakeCache.txt").read_text()
CHECKED = ("__memcpy_chk", "__snprintf_chk", "__vsnprintf_chk")
# Functions of small programs may have neither arrays nor calls that FORTIFY checks.
LARGE = ("muster", "libmuster.so")


def cached(name):
    found = re.search(rf"^{name}:\w+=(.*)$", CACHE, re.M)
    return found[1] if found else ""


def is_refused(flag):
    """Whether CMake has found that the compiler lacks it."""
    return re.search(rf"^MUSTER_HAS_{flag}:INTERNAL=(|0|OFF)$", CACHE, re.M)


def readelf(path, *options):
    return subprocess.run(["readelf", "-W", *options, path], capture_output=True, text=True, check=True).stdout


def is_elf(path):
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def binaries():
    """Everything that `make install` installs, and the examples."""
    found = [BUILD / "bin/muster", *(BUILD / "bin/examples").glob("*"), *(BUILD / "bin").glob("gpt"), *(BUILD / "lib").rglob("*.so*")]
    return sorted({path.resolve() for path in found if path.is_file() and is_elf(path)})


def branch_protection():
    """The options of the compiler and the features that the notes of an object file name, on this processor."""
    if platform.machine() == "x86_64" and not is_refused("fcf_protection_full"):
        return "-fcf-protection=full", ("IBT", "SHSTK")
    if platform.machine() == "aarch64" and not is_refused("mbranch_protection_standard"):
        return "-mbranch-protection=standard", ("BTI",)
    return "", ()


def has_features(path, features):
    notes = readelf(path, "-n")
    return all(re.search(rf"feature:.*\b{feature}\b", notes) for feature in features)


def start_files():
    """The object files that the compiler links into every program; a feature that one lacks is not in any program."""
    compiler = cached("CMAKE_C_COMPILER")
    for name in ("Scrt1.o", "crti.o", "crtbeginS.o"):
        yield subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()


@unittest.skipIf(cached("CMAKE_BUILD_TYPE") != "Release" or SANITIZED, "only release builds are hardened")
class Hardening(unittest.TestCase):
    def lacks(self, path):
        """What a program or library lacks."""
        header, segments, dynamic, symbols = (readelf(path, option) for option in ("-h", "-l", "-d", "--dyn-syms"))
        stack = re.search(r"GNU_STACK.*", segments)
        if not re.search(r"Type:\s+DYN", header) or (" INTERP " in segments and not re.search(r"FLAGS_1.*\bPIE\b", dynamic)):
            yield "PIE"
        if "GNU_RELRO" not in segments:
            yield "RELRO"
        if not re.search(r"BIND_NOW|FLAGS_1.*\bNOW\b", dynamic):
            yield "BIND_NOW, for full RELRO"
        if not stack or re.search(r"\bRWE\b", stack[0]):
            yield "a stack that is not executable"
        if "TEXTREL" in dynamic:
            yield "code without relocations"
        if re.search(r"R(UN)?PATH.*\[(?!.*\$ORIGIN)(?!/)", dynamic):
            yield "an RPATH without relative directories"
        if path.name.startswith(LARGE):
            if "__stack_chk_fail" not in symbols:
                yield "-fstack-protector-strong"
            if not any(name in symbols for name in CHECKED):
                yield "FORTIFY"

    def test_programs_and_libraries(self):
        paths = binaries()
        self.assertTrue({"muster"} <= {path.name for path in paths}, paths)
        self.assertTrue(any(path.name.startswith("libmuster.so") for path in paths), paths)
        found = [f"{path.relative_to(BUILD)} lacks {what}" for path in paths for what in self.lacks(path)]
        self.assertEqual(found, [])

    def test_no_path_of_this_machine(self):
        """Otherwise a build in another directory would differ (scripts/reproduce.sh)."""
        source = os.environ["MUSTER_SOURCE_DIR"].encode()
        for path in (path for path in [*binaries(), BUILD / "lib/libmuster.a"] if path.name.startswith(("muster", "libmuster."))):
            self.assertNotIn(source, path.read_bytes(), path)

    def test_bill_of_materials(self):
        """muster.cdx.json lists every library that a program, library or module needs."""
        bill = json.loads((BUILD / "muster.cdx.json").read_text())
        required, listed = ([property["value"] for component in bill["components"] for property in component["properties"]
                             if component["scope"] in scopes] for scopes in (["required"], ["required", "optional"]))
        for path in binaries():
            known = required if path.name.startswith("libmuster.so") else [*listed, "libmuster.so.*"]
            for library in re.findall(r"NEEDED.*\[(.*)\]", readelf(path, "-d")):
                self.assertTrue(any(fnmatch.fnmatch(library, name) for name in known), f"{path.name} needs {library}")

    def test_branch_protection(self):
        option, features = branch_protection()
        if not option:
            self.skipTest("the compiler has no branch protection for this processor")
        archive = next(iter(sorted(BUILD.glob("lib/libmuster.a"))))
        parts = re.split(r"^File: ", readelf(archive, "-n"), flags=re.M)[1:]
        self.assertGreater(len(parts), 100)
        for part in parts:
            for feature in features:
                self.assertRegex(part, rf"feature:.*\b{feature}\b", f"{part.splitlines()[0]} lacks {feature} ({option})")
        if not all(has_features(path, features) for path in start_files()):
            return  # the linker drops the feature, because code of the C library lacks it
        for path in (path for path in binaries() if path.name.startswith(LARGE)):  # others may link archives without it
            self.assertTrue(has_features(path, features), f"{path} lacks {features} ({option})")

    def test_options_of_every_file(self):
        """gcc records its options in the debug information."""
        wanted = ["-fstack-protector-strong", "-fstack-clash-protection", *filter(None, [branch_protection()[0]])]
        if is_refused("fstack_clash_protection"):
            wanted.remove("-fstack-clash-protection")
        seen = 0
        for path in binaries():
            units = readelf(path, "--debug-dump=info", "--dwarf-depth=1")
            for producer in re.findall(r"DW_AT_producer.*: (GNU C(?:11|\+\+20) .*)", units):
                seen += 1
                lacking = [option for option in wanted if option not in producer]
                self.assertEqual(lacking, [], f"a source file of {pathlib.Path(path).relative_to(BUILD)}: {producer}")
        if "GNU" in cached("CMAKE_C_COMPILER_ID") or seen:
            self.assertGreater(seen, 100)


if __name__ == "__main__":
    main()
