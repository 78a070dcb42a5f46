/*
 * nccl_engine.c - the module nccl alone, without the library: ranks are processes that this one starts, and
 * their host is a directory. With the real NCCL and a GPU, or with the fakes of tests/fake_cuda.
 *
 *   nccl_engine MODULE RANKS SCENARIO
 *
 *   probe       prints what the module says of this machine; exits with 1 if it cannot be used
 *   all         collectives, reductions, streams, groups, messages
 *   absent      the last rank never comes: open gives up at its deadline
 *   death       the last rank dies behind open: the others' operations do not end, abort and close do
 *   broken      NCCL says that a rank is lost (the fake's FAKE_NCCL_BREAK): so do operations
 *   memory      where pointers point, memory of the engine, copies
 */
#include "nccl_engine/kit.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

const mst_backend *table;
mst_backend_engine *engine;
int me, n;
static char directory[64];

void give_up(const char *file, int line, const char *what) {
    fprintf(stderr, "nccl_engine: FAILED on rank %d of %d, %s:%d: %s%s%s\n", me, n, file, line, what,
            *last_error ? ": " : "", last_error);
    _exit(1);
}

mst_status finish_op(mst_backend_op *op, int timeout_ms) {
    int64_t deadline = now_ns() + (int64_t)timeout_ms * 1000000;
    for (bool done = false; !done;) {
        mst_status st = table->progress(engine, op, &done);
        if (st != MST_OK) return st;
        if (!done && now_ns() > deadline) return MST_ERR_TIMEOUT;
        if (!done) sched_yield();
    }
    return MST_OK;
}

void run_op(mst_backend_op *op) {
    op->request = NULL;
    REQUIRE_OK(table->submit(engine, op));
    REQUIRE_OK(finish_op(op, PATIENCE_MS));
}

static double seconds_since(int64_t begin) {
    return (double)(now_ns() - begin) / 1e9;
}

static mst_status open_engine(int timeout_ms) {
    mst_backend_traits traits = {0};
    host_init(directory, timeout_ms);
    return table->open(&host, &engine, &traits);
}

static mst_backend_op barrier(void) {
    return (mst_backend_op){.kind = MST_KIND_BARRIER, .root = -1};
}

static void run_all(void) {
    static const struct {
        const char *name;
        void (*body)(void);
    } parts[] = {{"collectives", test_collectives},
                 {"reductions", test_reductions},
                 {"streams", test_streams},
                 {"groups", test_groups},
                 {"messages", test_messages}};
    int64_t begin = now_ns();
    REQUIRE_OK(open_engine(PATIENCE_MS));
    if (!me) printf("nccl_engine: open: %.3f s\n", seconds_since(begin));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        begin = now_ns();
        parts[i].body();
        if (!me) printf("nccl_engine: %s: %.3f s\n", parts[i].name, seconds_since(begin));
    }
    mst_backend_op last = barrier();
    run_op(&last);
    begin = now_ns();
    table->close(engine);
    if (!me) printf("nccl_engine: close: %.3f s\n", seconds_since(begin));
}

static void run_absent(void) {
    int64_t begin = now_ns();
    if (me == n - 1) return;
    mst_status st = open_engine(1500);
    REQUIRE(st == MST_ERR_TIMEOUT);
    printf("nccl_engine: rank %d gave up after %.1f s: %s\n", me, seconds_since(begin), last_error);
    REQUIRE(seconds_since(begin) < 15);
}

static void run_death(void) {
    REQUIRE_OK(open_engine(PATIENCE_MS));
    mst_backend_op op = barrier(), first = barrier();
    run_op(&first);
    if (me == n - 1) _exit(0);
    mst_status st = table->submit(engine, &op);
    if (st == MST_OK) st = finish_op(&op, 2000);
    printf("nccl_engine: rank %d: %s%s\n", me,
           st == MST_ERR_TIMEOUT ? "nothing for 2 s" : "an error: ", st == MST_ERR_TIMEOUT ? "" : last_error);
    REQUIRE(st != MST_OK);
    int64_t begin = now_ns();
    table->abort(engine);
    table->close(engine);
    printf("nccl_engine: rank %d: abort and close took %.1f s\n", me, seconds_since(begin));
    REQUIRE(seconds_since(begin) < 20);
}

static void run_broken(void) {
    REQUIRE_OK(open_engine(PATIENCE_MS));
    mst_status st = MST_OK;
    for (int i = 0; i < 10 && st == MST_OK; i++) {
        mst_backend_op op = barrier();
        st = table->submit(engine, &op);
        if (st == MST_OK) st = finish_op(&op, 3000);
    }
    printf("nccl_engine: rank %d: %s\n", me, last_error);
    REQUIRE(st == (me == 0 ? MST_ERR_PEER_LOST : MST_ERR_TIMEOUT));
    table->abort(engine);
    table->close(engine);
}

static void run_memory(void) {
    char text[] = "what goes there and back", back[sizeof text] = "";
    REQUIRE_OK(open_engine(PATIENCE_MS));
    REQUIRE(table->memory_of(text) == MST_MEMORY_HOST && table->memory_of(NULL) == MST_MEMORY_HOST);
    void *first = table->alloc(engine, sizeof text), *second = table->alloc(engine, 5000000);
    REQUIRE(first && second && table->memory_of(first) == MST_MEMORY_CUDA);
    REQUIRE(table->memory_of((char *)second + 4999999) == MST_MEMORY_CUDA);
    REQUIRE_OK(table->copy(engine, first, text, sizeof text));
    REQUIRE_OK(table->copy(engine, second, first, sizeof text));
    REQUIRE_OK(table->copy(engine, back, second, sizeof text));
    REQUIRE_OK(table->copy(engine, back, second, 0));
    REQUIRE(!strcmp(text, back));
    table->release(engine, second);
    REQUIRE(table->alloc(engine, 4900000) == second); /* kept for the next time */
    table->close(engine);
}

static void run_scenario(const char *name) {
    char text[600] = "";
    if (!strcmp(name, "probe")) {
        bool usable = table->probe(text, sizeof text);
        printf("%s: %s\n", usable ? "usable" : "not usable", text);
        exit(!usable);
    }
    device_init();
    if (!table->probe(text, sizeof text)) {
        printf("nccl_engine: skipped: %s\n", text);
        exit(77);
    }
    if (!strcmp(name, "all"))
        run_all();
    else if (!strcmp(name, "absent"))
        run_absent();
    else if (!strcmp(name, "death"))
        run_death();
    else if (!strcmp(name, "broken"))
        run_broken();
    else if (!strcmp(name, "memory"))
        run_memory();
    else
        exit(2);
    exit(0);
}

static const mst_backend *load_module(const char *path) {
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL),
         *address = module ? dlsym(module, "mst_backend_module") : NULL;
    const mst_backend *(*function)(unsigned);
    if (!address) fprintf(stderr, "nccl_engine: %s\n", dlerror());
    if (!address) exit(2);
    memcpy(&function, &address, sizeof function);
    return function(MST_BACKEND_VERSION);
}

static void remove_directory(void) {
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    if (system(command)) fprintf(stderr, "nccl_engine: %s is left behind\n", directory);
}

/* Nothing of CUDA is touched before the ranks are processes of their own. */
int main(int argc, char **argv) {
    int worst = 0;
    if (argc != 4 || (n = atoi(argv[2])) < 1 || n > RANKS_MAX) return 2;
    strcpy(directory, "/tmp/nccl_engine-XXXXXX");
    if (!mkdtemp(directory)) return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (me = 0; me < n; me++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(150); /* a rank that hangs is a failure, and leaves nobody behind */
            table = load_module(argv[1]);
            run_scenario(argv[3]);
        }
        if (child < 0) return 2;
    }
    for (int status; wait(&status) > 0;) {
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (code > worst) worst = code;
    }
    remove_directory();
    return worst;
}
