"""How compilers treat calls: correct ones compile without warnings and run, mistaken ones get an error or a warning."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

from harness import BUILD, SANITIZED, SOURCE, ProcessTest, main

C = ("-x", "c", "-std=c11", "-Wall", "-Wextra")
CPP = ("-x", "c++", "-std=c++20", "-Wall", "-Wextra")
COMPILERS = [(name, flags) for name, flags in (("gcc", C), ("clang", C), ("g++", CPP), ("clang++", CPP)) if shutil.which(name)]
LIMIT = 120.0  # seconds for one run of a compiler
LINKED = "the program would have to be linked with the sanitizers"

HEADER = """#include <muster/muster.h>
#include <stdio.h>
#include <string.h>
extern mst_group *group;
extern mst_store *store;
extern mst_mesh *mesh;
extern mst_work *work;
extern mst_bytes bytes, strings[4];
extern float x[16], y[16];
extern void *outs[4];
extern const void *ins[4];
extern const size_t counts[4];
extern int ranks[4];
extern const char *const names[2], *const keys[2];
extern mst_message message;
extern bool found;
extern int sender;
extern int sum(int a, int b);
extern mst_op user;
extern void take_last(void *inout, const void *in, size_t count, mst_dtype dtype, void *arg);
#define LATER .timeout_ms = 10000, .group = NULL
void test(void);
"""

# The definitions and the main program of the snippets that run.
PROGRAM = """#include <muster/muster.h>
#include <stdio.h>
mst_group *group;
mst_store *store;
mst_mesh *mesh;
mst_work *work;
mst_bytes bytes, strings[4];
float x[16], y[16];
void *outs[4] = {x, x + 4, x + 8, x + 12};
const void *ins[4] = {y, y + 4, y + 8, y + 12};
const size_t counts[4] = {1, 1, 1, 1};
int ranks[4];
const char *const names[2] = {"dp", "tp"}, *const keys[2] = {"k", "k"};
mst_message message;
bool found;
int sender;
int sum(int a, int b);
int sum(int a, int b) { return a + b; }
mst_op user;
void take_last(void *inout, const void *in, size_t count, mst_dtype dtype, void *arg);
void take_last(void *inout, const void *in, size_t count, mst_dtype dtype, void *arg) {
    (void)inout, (void)in, (void)count, (void)dtype, (void)arg;
}
int wrong;
void check(mst_status status, int call);
void check(mst_status status, int call) {
    if (status == MST_OK) return;
    printf("call %d: %s\\n", call, mst_error());
    wrong = 1;
}
void reject(mst_status status);
void reject(mst_status status) { printf("%s %s\\n", mst_status_name(status), status == MST_OK ? "" : mst_error()); }
"""

# Calls that are correct in C and in C++.
BOTH = """
mst_barrier()
mst_barrier(.timeout_ms = 10000)
mst_monitored_barrier(.wait_all_ranks = true, .timeout_ms = 10000)
mst_broadcast(x, 4, MST_F32)
mst_broadcast(x, 4, MST_F32, .root = 0)
mst_all_reduce(x, 4, MST_F32)
mst_all_reduce(x, 4, MST_F32, .op = MST_AVG, .group = NULL, .timeout_ms = 10000)
mst_reduce(x, 4, MST_F32, .op = MST_MAX, .root = 0)
mst_scan(x, 4, MST_F32, .op = MST_MAX)
mst_op_create(take_last, NULL, &user, .unit = 2)
mst_all_reduce(x, 4, MST_F32, .op = user)
mst_op_free(user)
mst_exscan(x, 4, MST_F32)
mst_all_gather_into_tensor(x, y, 4, MST_F32)
mst_reduce_scatter_tensor(x, y, 4, MST_F32, .op = MST_MIN)
mst_gather(x, y, 4, MST_F32, .root = 0)
mst_scatter(x, y, 4, MST_F32)
mst_all_to_all_single(x, y, 0, MST_F32, .in_splits = counts, .out_splits = counts)
mst_all_gather(outs, y, 1, MST_F32, .counts = counts)
mst_all_to_all(outs, ins, 1, MST_F32)
mst_all_reduce_coalesced(outs, counts, 4, MST_F32)
mst_broadcast_coalesced(outs, counts, 4, MST_F32, .root = 0)
mst_isend(x, 1, MST_F32, 0, .work = &work)
mst_recv(y, 1, MST_F32, MST_ANY_SOURCE)
mst_wait(work)
mst_irecv(x, 1, MST_F32, 0, .tag = 7, .work = &work)
mst_send(x, 1, MST_F32, sum(-1, 1), .tag = 7)
mst_wait(work, .timeout_ms = 10000)
mst_isend(x, 1, MST_F32, 0, .tag = 8, .group = NULL, .timeout_ms = 10000, .work = &work)
mst_recv(y, 1, MST_F32, sum(0, 0), .tag = 8)
mst_wait(work)
mst_send_bytes("a, {b}", 6, 0)
mst_probe(0, &message, .tag = MST_ANY_TAG)
mst_iprobe(MST_ANY_SOURCE, &found, &message)
mst_recv_bytes(&bytes, 0)
mst_send_recv(x, 1, 0, y, 1, 0, MST_F32)
mst_send_recv(x, 1, MST_ANY_SOURCE, y, 1, sum(0, 0), MST_F32, .tag = 7, .message = &message)
mst_send_recv(x, 0, MST_NO_RANK, NULL, 0, MST_NO_RANK, MST_F32, .sender = &sender)
mst_broadcast_bytes(&bytes, "abc", 3, .root = 0)
mst_all_gather_bytes(strings, "abc", 3)
mst_new_group(ranks, 1, &group)
mst_new_group(ranks, 1, &group, .timeout_ms = 10000, .name = "a, group")
mst_init_device_mesh_from("dp=1,tp=1", &mesh, .timeout_ms = 10000)
mst_store_open("hash://", &store, .timeout_ms = 10000)
mst_store_set(store, "k", "v", 1, .timeout_ms = 10000)
mst_store_wait(store, keys, 2)
mst_store_get(store, "k", &bytes)
mst_alloc(64, &tensor)
mst_alloc(64, &tensor, .group = NULL)
"""

# Calls that are correct in C: compound literals, options in any order, options of a macro.
ONLY_C = """
mst_new_group((int[]){0}, 1, &group)
mst_new_group((const int[1]){[0] = 0}, 1, &group, .name = "a")
mst_all_reduce((float[]){1, 2}, 2, MST_F32)
mst_all_reduce((float[]){1, 2}, 2, MST_F32, .timeout_ms = 10000, .op = MST_AVG)
mst_broadcast(&(struct { int a, b; }){1, 2}, sizeof(int[2]), MST_U8, .timeout_ms = 10000, .root = 0)
mst_all_gather((void *[]){x}, (float[]){1, 2}, 2, MST_F32)
mst_all_gather((void *[]){x}, y, 0, MST_F32, .counts = (size_t[]){2})
mst_reduce_scatter(x, (const void *[]){y}, 2, MST_F32, .op = MST_MAX)
mst_all_to_all((void *[]){x}, (const void *[]){y}, 2, MST_F32)
mst_all_to_all_single(x, y, 0, MST_F32, .out_splits = (size_t[]){2}, .in_splits = (size_t[]){2})
mst_all_reduce_coalesced((void *[]){x, y}, (size_t[]){1, 2}, 2, MST_F32)
mst_all_gather_coalesced((void *[]){x}, (const void *[]){y}, (size_t[]){1}, 1, MST_F32)
mst_irecv(y, 2, MST_F32, 0, .work = &work, .tag = 3)
mst_send((float[]){1, 2}, 2, MST_F32, 0, .tag = 3)
mst_wait(work)
mst_irecv(y, sizeof(int[2]), MST_U8, 0, .work = &work)
mst_send(((int[]){1, 2}), sizeof(int[]){1, 2}, MST_U8, 0)
mst_wait(work)
mst_isend((float[]){1, 2}, 2, MST_F32, (int[]){0, 1}[0], .work = &work)
mst_recv((float[2]){0}, 2, MST_F32, 0, LATER)
mst_wait(work)
mst_batch_isend_irecv((mst_p2p[]){{.buf = x, .count = 1, .dtype = MST_F32, .send = true}}, 1, (mst_work *[]){NULL})
mst_recv((float[1]){0}, 1, MST_F32, 0)
mst_send_bytes((char[]){'a', ',', '{'}, 3, 0, LATER)
mst_recv_bytes(&(mst_bytes){0}, 0, .timeout_ms = 10000)
mst_scatter_bytes(&bytes, (mst_bytes[]){{"a", 1}})
mst_init_device_mesh((int[]){1, 1}, 2, (const char *[]){"dp", "tp"}, &mesh)
mst_init_device_mesh((int[]){1}, 1, NULL, &mesh, .ranks = (int[]){0})
mst_store_wait(store, (const char *[]){"k", "k"}, 2, .timeout_ms = 10000)
mst_store_check(store, (const char *[]){"k"}, 1, &(bool){false})
mst_store_multi_set(store, (const char *[]){"a", "b"}, (mst_bytes[]){{"1", 1}, {"2", 1}}, 2)
mst_store_add(store, "n", 1, &(int64_t){0})
mst_barrier(LATER)
"""

BY_NAME = r"mst_options_must_be_named|should be designated|non-designated"
MISSING = r"too few|too many|no matching|requires|expected|missing|fewer|argument"
POINTER = r"pointer|no matching function"

# A mistake, the languages that must notice it, and what their compilers must mention. Warnings are enough.
MISTAKES = {
    "positional_op": ("mst_all_reduce(x, 2, MST_F32, MST_AVG);", "c c++", BY_NAME),
    "positional_group": ("mst_all_reduce(x, 2, MST_F32, group);", "c c++", BY_NAME),
    "positional_root": ("mst_broadcast(x, 2, MST_F32, 1);", "c c++", BY_NAME),
    "positional_group_of_barrier": ("mst_barrier(group);", "c c++", BY_NAME),
    "positional_after_peer": ("mst_send(x, 2, MST_F32, 1, 5);", "c c++", BY_NAME),
    "positional_group_after_peer": ("mst_recv(x, 2, MST_F32, 1, group);", "c c++", BY_NAME),
    "positional_timeout_of_wait": ("mst_wait(work, 1000);", "c c++", BY_NAME),
    "positional_timeout_of_store": ("mst_store_get(store, \"k\", &bytes, 1000);", "c c++", BY_NAME),
    "positional_name_of_group": ("mst_new_group(ranks, 1, &group, \"name\");", "c c++", BY_NAME),
    "no_peer": ("mst_send(x, 2, MST_F32);", "c++", MISSING),
    "no_peer_but_options": ("mst_send(x, 2, MST_F32, .tag = 1);", "c++", MISSING),
    "no_peer_of_recv_bytes": ("mst_recv_bytes(&bytes);", "c++", MISSING),
    "old_dst": ("mst_send(x, 2, MST_F32, .dst = 1);", "c c++", r"'dst'|‘dst’|before ‘.’|expected expression"),
    "old_src": ("mst_recv(x, 2, MST_F32, .src = 1);", "c c++", r"'src'|‘src’|before ‘.’|expected expression"),
    "old_group_src": ("mst_broadcast(x, 2, MST_F32, .group_src = 0);", "c c++", r"group_src"),
    "src_of_broadcast": ("mst_broadcast(x, 2, MST_F32, .src = 0);", "c c++", r"src"),
    "peer_is_group": ("mst_send(x, 2, MST_F32, group);", "c c++", r"integer|int\b|conver|no matching"),
    "unknown_option": ("mst_all_reduce(x, 2, MST_F32, .reduce_op = MST_MAX);", "c c++", r"reduce_op"),
    "option_of_another_call": ("mst_wait(work, .group = group);", "c c++", r"group"),
    "option_twice": ("mst_barrier(.timeout_ms = 1, .timeout_ms = 2);", "c c++", r"timeout_ms|overrid|overwrit|initiali"),
    "order_of_options": ("mst_all_reduce(x, 2, MST_F32, .group = group, .op = MST_MAX);", "c++", r"order"),
    "count_and_buffer_swapped": ("mst_all_reduce(2, x, MST_F32);", "c c++", POINTER + r"|conver"),
    "constant_output": ("const float in[2] = {1, 2}; mst_recv(in, 2, MST_F32, 0);", "c c++", r"const"),
    "float_for_list": ("mst_all_gather(x, y, 1, MST_F32);", "c c++", POINTER + r"|conver|cast"),
    "work_for_address": ("mst_irecv(x, 2, MST_F32, 0, .work = work);", "c c++", POINTER + r"|conver"),
    "address_for_work": ("mst_wait(&work);", "c c++", POINTER + r"|conver"),
    "bytes_for_address": ("mst_store_get(store, \"k\", bytes);", "c c++", r"mst_bytes|incompatible|conver"),
    "alloc_of_pointer": ("float *p = x; mst_alloc(64, p);", "c c++", POINTER + r"|invalid|comparison"),
    "alloc_of_int": ("int n = 0; mst_alloc(64, &n);", "c c++", POINTER),
    "alloc_of_array": ("mst_alloc(64, &x);", "c++", POINTER),
    "alloc_without_address": ("mst_alloc(64);", "c c++", r"."),
    "alloc_of_constant": ("mst_alloc(64, NULL);", "c++", r"."),
    "no_dtype": ("mst_all_reduce(x, 2);", "c++", MISSING),
    "no_value_of_store_set": ("mst_store_set(store, \"k\");", "c c++", MISSING),
    "no_keys_of_store_wait": ("mst_store_wait(store);", "c c++", MISSING),
    "no_string_of_broadcast_bytes": ("mst_broadcast_bytes(&bytes);", "c++", MISSING),
    "group_for_communicator": ("mst_new_group(ranks, 1, group);", "c c++", POINTER + r"|conver"),
    "mesh_for_group": ("mst_barrier(.group = mesh);", "c c++", POINTER + r"|conver"),
    "ignored_address": ("mst_init_device_mesh(ranks, 1, names, mesh);", "c c++", POINTER + r"|conver"),
}

# Mistakes that compile in C and that the call must reject, and what its error must mention.
TOO_FEW = "too few positional arguments"
REJECTED = {
    "mst_send(x, 2, MST_F32)": TOO_FEW,
    "mst_send(x, 2, MST_F32, .tag = 1)": TOO_FEW,
    "mst_send(x, 2, MST_F32, LATER)": TOO_FEW,
    "mst_send((float[]){1, 2}, 2, MST_F32)": TOO_FEW,
    "mst_send((float[]){1, 2}, 2, MST_F32, .tag = 1)": TOO_FEW,
    "mst_send((float[]){1, 2, 3}, 2, MST_F32)": TOO_FEW,
    "mst_recv(x, 2, MST_F32, .tag = 1)": TOO_FEW,
    "mst_recv((float[2]){0, 0}, 2, MST_F32, LATER)": TOO_FEW,
    "mst_isend(x, 2, MST_F32, .work = &work)": TOO_FEW,
    "mst_irecv((float[]){1, 2}, 2, MST_F32, .work = &work)": TOO_FEW,
    "mst_send_bytes(\"a,b\", 3)": TOO_FEW,
    "mst_send_bytes((char[]){1, 2}, 2, .tag = 1)": TOO_FEW,
    "mst_recv_bytes(&bytes)": TOO_FEW,
    "mst_recv_bytes(&bytes, .tag = 1)": TOO_FEW,
    "mst_send_recv(x, 1, 0, y, 1, 0)": TOO_FEW,
    "mst_send_recv(x, 1, 0, y, 1, 0, .tag = 1)": TOO_FEW,
    "mst_send_recv(x, 2, 0, x + 1, 2, 0, MST_F32)": "out and in overlap",
    "mst_probe(0)": TOO_FEW,
    "mst_probe(0, .tag = 1)": TOO_FEW,
    "mst_iprobe(0, &found)": TOO_FEW,
    "mst_all_reduce(x, 2)": TOO_FEW,
    "mst_all_reduce(x, 2, .op = MST_MAX)": TOO_FEW,
    "mst_broadcast((float[]){1, 2}, 2, .root = 0)": TOO_FEW,
    "mst_gather(x, y, 2, .root = 0)": TOO_FEW,
    "mst_new_group(ranks, 1)": TOO_FEW,
    "mst_init_device_mesh_from(\"dp=1\")": TOO_FEW,
    "mst_store_set(store, \"k\", \"v\")": TOO_FEW,
    "mst_store_get(store, \"k\")": TOO_FEW,
    "mst_wait(NULL)": "work",
}

# What does not hold yet: the name of a mistake with the compiler, and the reason.
IN_BRACES = "g++ does not name the option, but the list of all options; it would if MST_OPTIONS wrote type{...}"
EXPECTED_TO_FAIL = {
    ("old_group_src", "g++"): IN_BRACES,
    ("src_of_broadcast", "g++"): IN_BRACES,
    ("unknown_option", "g++"): IN_BRACES,
    ("option_of_another_call", "g++"): IN_BRACES,
    ("work_for_address", "g++"): IN_BRACES,
    ("mesh_for_group", "g++"): IN_BRACES,
}


class CompileTest(ProcessTest):
    def compile(self, compiler, flags, text, *more):
        """Compiles a program: exit status and messages."""
        command = [compiler, *flags, "-I", SOURCE / "include", "-", "-x", "none", *more]
        process = self.spawn(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/")
        out, _ = process.communicate((HEADER + text).encode(), timeout=LIMIT)
        return process.returncode, out.decode(errors="replace")

    def judge(self, name, compiler, wrong):
        """Fails if the result is not the expected one. wrong: what is wrong, or None."""
        expected = (name, compiler) in EXPECTED_TO_FAIL
        with self.subTest(name=name, compiler=compiler):
            if expected and not wrong:
                self.fail("it holds now: remove it from EXPECTED_TO_FAIL")
            if wrong and not expected:
                self.fail(wrong)

    def setUp(self):
        super().setUp()
        if not COMPILERS:
            self.skipTest("no compiler is installed")


class Mistakes(CompileTest):
    """Mistakes that compilers must notice."""

    def test_mistakes(self):
        for compiler, flags in COMPILERS:
            language = flags[1]
            for name, (text, languages, pattern) in MISTAKES.items():
                if language not in languages.split():
                    continue
                status, out = self.compile(compiler, flags, f"void test(void) {{ {text} }}\n", "-fsyntax-only")
                noticed = status != 0 or "warning: " in out
                wrong = None if noticed and re.search(pattern, out) else f"{text}\n{out[:2000] or '(compiles without a warning)'}"
                self.judge(name, compiler, wrong)


class Correct(CompileTest):
    """Calls that must compile without a warning, and their results on one rank."""

    def calls(self, flags):
        text = BOTH + (ONLY_C if flags is C else "")
        return [line for line in text.splitlines() if line]

    def test_warnings(self):
        """Each call alone, with the warnings that projects enable."""
        strict = ("-Werror", "-Wshadow", "-Wconversion", "-Wcast-qual", "-fsyntax-only")
        for compiler, flags in COMPILERS:
            calls = self.calls(flags)
            body = "".join(f"#line {n} \"call\"\nif ({call}) return;\n" for n, call in enumerate(calls))
            _, out = self.compile(compiler, flags, f"void test(void) {{ float *tensor = NULL;\n{body} }}\n", *strict)
            wrong = {int(n) for n in re.findall(r"^call:(\d+):", out, re.M)}
            for n, call in enumerate(calls):
                self.judge(call, compiler, out[:3000] if n in wrong else None)

    def test_pedantic(self):
        """The header and typical calls with -Wpedantic."""
        for compiler, flags in COMPILERS:
            text = "void test(void) { if (mst_init() || mst_all_reduce(x, 1, MST_F32, .op = MST_MAX)) puts(mst_error()); }\n"
            status, out = self.compile(compiler, flags, text, "-Wpedantic", "-Werror", "-fsyntax-only")
            self.judge("pedantic", compiler, out[:3000] if status != 0 else None)

    def test_readme(self):
        """The program of the README, in C and in C++20."""
        program = re.search(r"```c hello\.c\n(.*?)```", (SOURCE / "README.md").read_text(encoding="utf-8"), re.S)[1]
        for compiler, flags in COMPILERS:
            status, out = self.compile(compiler, flags, program, "-Werror", "-fsyntax-only")
            self.judge("readme", compiler, out[:3000] if status != 0 else None)

    def build_and_run(self, compiler, flags, text):
        """Compiles a program and runs it as a world of one rank. Returns its output."""
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "program")
            link = ("-o", path, f"-L{BUILD}/lib", f"-Wl,-rpath,{BUILD}/lib", "-lmuster")
            status, out = self.compile(compiler, flags, text, *link)
            self.assertEqual(status, 0, out[:3000])
            process = self.spawn(path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            out = process.communicate(timeout=LIMIT)[0].decode(errors="replace")
        self.assertEqual(process.returncode, 0, out)
        return out

    @unittest.skipIf(SANITIZED, LINKED)
    def test_results(self):
        """All correct calls in one program."""
        for compiler, flags in COMPILERS:
            body = "".join(f"check({call}, {n});\n" for n, call in enumerate(self.calls(flags)))
            text = f"{PROGRAM}int main(void) {{ float *tensor = NULL; check(mst_init(), -1);\n{body}return wrong; }}\n"
            self.assertEqual(self.build_and_run(compiler, flags, text), "")

    @unittest.skipIf(SANITIZED, LINKED)
    def test_rejected(self):
        """Mistakes that compile are rejected by the call."""
        for compiler, flags in COMPILERS:
            if flags is not C:
                continue
            body = "".join(f"reject({call});\n" for call in REJECTED)
            setup = 'mst_init(); mst_store_open("hash://", &store);'
            out = self.build_and_run(compiler, flags, f"{PROGRAM}int main(void) {{ {setup}\n{body}return 0; }}\n")
            for (call, pattern), line in zip(REJECTED.items(), out.splitlines(), strict=True):
                good = line.startswith("MST_ERR_INVALID") and re.search(pattern, line)
                self.judge(call, compiler, None if good else line)


if __name__ == "__main__":
    main()
