/*
 * engines.c - backends that the program registers: its own, and variants of the example. See ../backends.c.
 */
#include "kit.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* An engine for a group of one that counts calls; a stuck operation is not done before close. */
static int opened, submitted, closed;
static bool stuck;
static mst_backend_op *last;

static bool own_probe(char *text, size_t capacity) {
    snprintf(text, capacity, "made here");
    return true;
}
static const mst_backend_capability *own_rows(void) {
    static const mst_backend_capability rows[] = {{.kinds = 1u << MST_KIND_BROADCAST}, {0}};
    return rows;
}
static mst_status own_open(const mst_backend_host *host, mst_backend_engine **engine,
                           mst_backend_traits *traits) {
    (void)traits;
    CHECK(host->ranks == 1 && host->rank == 0 && host->world_size == size && host->one_host);
    OK(host->set(host, "key", "value", 5));
    mst_bytes value;
    OK(host->get(host, "key", host->deadline, &value));
    CHECK(value.len == 5 && !strcmp(value.data, "value"));
    free(value.data);
    float a[3] = {1, 2, 3}, b[3] = {4, 5, 6};
    CHECK(host->combine(MST_F32, MST_SUM, a, a, b, 3) && a[2] == 9);
    CHECK(!host->combine(MST_F32, MST_BAND, a, a, b, 3) && !host->combine(MST_F32, MST_AVG, a, a, b, 3));
    host->log(host, 'W', "a warning");
    host->log(host, 'I', "an information");
    host->log(host, 'D', "a detail");
    opened++;
    *engine = (mst_backend_engine *)(void *)&opened;
    return MST_OK;
}
static mst_status own_submit(mst_backend_engine *engine, mst_backend_op *op) {
    (void)engine;
    memmove(op->out, op->in, op->count * op->element);
    submitted++;
    last = op;
    return MST_OK;
}
static mst_status own_progress(mst_backend_engine *engine, mst_backend_op *op, bool *done) {
    (void)engine;
    (void)op;
    *done = !stuck;
    return MST_OK;
}
static void own_abort(mst_backend_engine *engine) {
    (void)engine;
}
static void own_close(mst_backend_engine *engine) {
    (void)engine;
    if (stuck) last->request = NULL; /* not done yet */
    closed++;
}

mst_backend own_table = {
    .version = MST_BACKEND_VERSION,
    .size = sizeof own_table,
    .name = "own",
    .title = "of this program",
    .probe = own_probe,
    .rows = own_rows,
    .open = own_open,
    .submit = own_submit,
    .progress = own_progress,
    .abort = own_abort,
    .close = own_close,
};

/* Done after a number of calls of progress. */
static mst_status patient_progress(mst_backend_engine *engine, mst_backend_op *op, bool *done) {
    enum { CALLS = 1000 };
    static int calls;
    (void)engine;
    (void)op;
    *done = ++calls >= CALLS;
    return MST_OK;
}

/* An engine without a descriptor to poll is called often. Between the usual sleeps of 5 ms this takes 5 s. */
static void patient(void) {
    enum { SOON_MS = 3000 };
    mst_backend table = own_table;
    mst_group *alone;
    int value = 7;
    table.name = "patient";
    table.progress = patient_progress;
    OK(mst_backend_register(&table));
    OK(mst_new_group(&me, 1, &alone, .backend = "patient"));
    OK(mst_broadcast(&value, 1, MST_I32, .group = alone, .timeout_ms = SOON_MS));
    OK(mst_destroy_process_group(alone));
    opened = submitted = closed = 0;
}

void own(void) {
    mst_group *alone;
    int value = 7;
    patient();
    OK(mst_backend_register(&own_table));
    CHECK(mst_backend_register(&own_table) == MST_ERR_STATE);
    OK(mst_new_group(&me, 1, &alone, .backend = "own"));
    OK(mst_broadcast(&value, 1, MST_I32, .group = alone));
    CHECK(opened == 1 && submitted == 1 && value == 7);
    CHECK(mst_all_reduce(&value, 1, MST_I32, .group = alone) == MST_OK); /* composed of broadcasts */
    CHECK(value == 7);
    OK(mst_destroy_process_group(alone));
    CHECK(closed == 1);
    bool found = false, usable;
    char text[200];
    const char *name;
    for (int i = 0; mst_backend_list(i, &name, &usable, text, sizeof text); i++)
        if (!strcmp(name, "own")) found = usable && !strcmp(text, "made here");
    CHECK(found);
    CHECK(mst_backend_rows("own") && !mst_backend_rows("none"));

    mst_work *work;
    OK(mst_new_group(&me, 1, &alone, .backend = "own"));
    stuck = true;
    OK(mst_broadcast(&value, 1, MST_I32, .group = alone, .work = &work));
    OK(mst_destroy_process_group(alone));
    CHECK(closed == 2 && mst_wait(work) == MST_ERR_STATE);
}

mst_status own_begin(mst_backend_engine *engine) {
    (void)engine;
    return MST_OK;
}

/* Counts operations between begin and end, which must be exactly one batch. */
enum { BATCH = 4, ROUNDS = 3000 };
static pthread_barrier_t both_start;
static int in_batch = -1, broken;

static mst_status batch_begin(mst_backend_engine *engine) {
    (void)engine;
    in_batch = 0;
    return MST_OK;
}
static mst_status batch_end(mst_backend_engine *engine) {
    (void)engine;
    if (in_batch != BATCH) broken++;
    in_batch = -1;
    return MST_OK;
}
static mst_status batch_submit(mst_backend_engine *engine, mst_backend_op *op) {
    (void)engine;
    if (in_batch < 0) broken++;
    in_batch++;
    submitted++;
    if (op->in && op->out) memmove(op->out, op->in, op->count * op->element);
    return MST_OK;
}
static mst_status batch_open(const mst_backend_host *host, mst_backend_engine **engine,
                             mst_backend_traits *traits) {
    (void)host;
    traits->ordered = true;
    *engine = (mst_backend_engine *)(void *)&in_batch;
    return MST_OK;
}
static const mst_backend_capability *batch_rows(void) {
    static const mst_backend_capability rows[] = {
        {.kinds = 1u << MST_KIND_ALL_GATHER, .forms = MST_FORM_IN_PLACE},
        {.kinds = 1u << MST_KIND_SEND | 1u << MST_KIND_RECV},
        {0}};
    return rows;
}

/* Messages of a batch are submitted together, too. The engine moves nothing. */
static void batch_messages(mst_group *group) {
    int value = 0;
    mst_p2p ops[BATCH];
    mst_work *works[BATCH];
    for (int i = 0; i < BATCH; i++)
        ops[i] = (mst_p2p){.buf = &value, .count = 1, .dtype = MST_I32, .send = i % 2 == 0};
    for (int round = 0; round < ROUNDS / 10; round++) {
        OK(mst_batch_isend_irecv(ops, BATCH, works, .group = group));
        OK(mst_wait_all(works, BATCH));
    }
}

static void *batch_thread(void *group) {
    int ins[BATCH], outs[BATCH];
    const void *from[BATCH];
    void *to[BATCH];
    size_t counts[BATCH];
    for (int i = 0; i < BATCH; i++) {
        from[i] = &ins[i];
        to[i] = &outs[i];
        counts[i] = 1;
    }
    pthread_barrier_wait(&both_start);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BATCH; i++) ins[i] = round + i;
        mst_status st; /* the other thread may be in its call */
        do st = mst_all_gather_coalesced(to, from, counts, BATCH, MST_I32, .group = group);
        while (st == MST_ERR_STATE);
        OK(st);
        for (int i = 0; i < BATCH; i++) CHECK(outs[i] == round + i);
    }
    return NULL;
}

void batches(void) {
    mst_backend table = own_table;
    mst_group *alone;
    pthread_t threads[2];
    int in = 1, out;
    mst_work *work;
    table.name = "batches";
    table.rows = batch_rows;
    table.open = batch_open;
    table.submit = batch_submit;
    table.group_begin = batch_begin;
    table.group_end = batch_end;
    OK(mst_backend_register(&table));
    OK(mst_new_group(&me, 1, &alone, .backend = "batches"));
    in_batch = 0; /* not batched: it starts the group's thread; later batches come from several threads */
    OK(mst_all_gather_into_tensor(&out, &in, 1, MST_I32, .group = alone, .work = &work));
    OK(mst_wait(work));
    in_batch = -1;
    submitted = 0;
    pthread_barrier_init(&both_start, NULL, 2);
    for (int i = 0; i < 2; i++) CHECK(!pthread_create(&threads[i], NULL, batch_thread, alone));
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    CHECK(submitted == 2 * ROUNDS * BATCH && broken == 0);
    batch_messages(alone);
    CHECK(broken == 0);
    OK(mst_destroy_process_group(alone));
}

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* The number of context switches of the group's thread: how often it has slept. */
static long sleeps(void) {
    DIR *tasks = opendir("/proc/self/task");
    long found = -1;
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        char path[300], line[200];
        bool ours = false;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *status = fopen(path, "r");
        while (status && fgets(line, sizeof line, status)) {
            if (!strcmp(line, "Name:\tmuster-comm\n")) ours = true;
            if (ours) sscanf(line, "voluntary_ctxt_switches: %ld", &found);
        }
        if (status) fclose(status);
    }
    if (tasks) closedir(tasks);
    return found;
}

/* The driver stops the store (SIGSTOP) between the two lines of output, and continues it after the second. */
void streams(void) {
    enum {
        WATCHED_MS = 3000,
        CALLS_MS = 2000,
        QUIET_MS = 700,
        STORE_MS = 450 /* shorter than a wait for the store */
    };
    mst_group *alone;
    int value = 1, stream;
    char line[16];
    int calls = 0, waits = 0;
    OK(mst_backend_register(&own_table));
    OK(mst_new_group(&me, 1, &alone, .backend = "own"));
    OK(mst_broadcast(&value, 1, MST_I32, .group = alone, .timeout_ms = WATCHED_MS, .stream = &stream));
    while (sleeps() < 0) usleep(1000); /* until the thread has its name */
    long before = sleeps();
    usleep(QUIET_MS * 1000);
    CHECK(sleeps() > before);
    puts("ready");
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin));
    for (double end = now_ms() + CALLS_MS; now_ms() < end; usleep(230000)) { /* the thread polls in between */
        double begin = now_ms();
        OK(mst_broadcast(&value, 1, MST_I32, .group = alone));
        calls++;
        waits += now_ms() - begin >= STORE_MS;
    }
    printf("waits %d of %d\n", waits, calls);
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin));
    usleep((WATCHED_MS - CALLS_MS) * 1000);
    before = sleeps();
    usleep(QUIET_MS * 1000);
    CHECK(sleeps() == before);
}

/* The example under another name. */
static mst_backend second;
void register_second(void) {
    const mst_backend_capability *rows = mst_backend_rows("minimal");
    CHECK(rows);
    second = own_table;
    second.name = "minimal2";
    OK(mst_backend_register(&second));
}

/* A working copy of the example. */
static mst_backend copy_example(void) {
    char file[4096];
    snprintf(file, sizeof file, "%s/mst_backend_minimal.so", getenv("MUSTER_BACKEND_PATH"));
    void *module = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    CHECK(module);
    const mst_backend *(*give)(unsigned);
    void *found = dlsym(module, "mst_backend_module");
    memcpy(&give, &found, sizeof give);
    return *give(MST_BACKEND_VERSION);
}

void register_copy(void) {
    mst_backend copy = copy_example();
    copy.name = "copy";
    OK(mst_backend_register(&copy));
}

static const mst_backend_capability *floats_rows(void) {
    static const mst_backend_capability rows[] = {
        {.kinds = 1u << MST_KIND_ALL_GATHER, .dtypes = 1u << MST_F32}, {0}};
    return rows;
}

static void check_floats(void) {
    float x = 1;
    OK(mst_all_reduce(&x, 1, MST_F32));
    CHECK(x == (float)size);
}

/* Memory that this backend treats as device memory. */
static int device_memory[16], times_asked;
static mst_memory both_memory_of(const void *pointer) {
    times_asked++;
    const char *at = pointer, *begin = (const char *)device_memory;
    return at >= begin && at < begin + sizeof device_memory ? MST_MEMORY_CUDA : MST_MEMORY_HOST;
}
static void *both_alloc(mst_backend_engine *engine, size_t bytes) {
    (void)engine;
    return malloc(bytes);
}
static void both_release(mst_backend_engine *engine, void *memory) {
    (void)engine;
    free(memory);
}
static mst_status both_copy(mst_backend_engine *engine, void *to, const void *from, size_t bytes) {
    (void)engine;
    memmove(to, from, bytes);
    return MST_OK;
}
static const mst_backend_capability *both_rows(void) {
    static const mst_backend_capability rows[] = {
        {.kinds = 1u << MST_KIND_ALL_GATHER, .memories = 1u << MST_MEMORY_HOST | 1u << MST_MEMORY_CUDA}, {0}};
    return rows;
}

/* From one line, so that the library may keep the call. */
static void gather(int *out, int value) {
    int in = value + me;
    OK(mst_all_gather_into_tensor(out, &in, 1, MST_I32, .timeout_ms = 60000));
    for (int r = 0; r < size; r++) CHECK(out[r] == value + r);
}

void memories(void) {
    mst_backend both = copy_example();
    int host_memory[16], in;
    both.name = "both";
    both.rows = both_rows;
    both.memory_of = both_memory_of;
    both.alloc = both_alloc;
    both.release = both_release;
    both.copy = both_copy;
    OK(mst_backend_register(&both));
    OK(mst_set_backend(NULL, "cuda:both,cpu:both", .timeout_ms = 60000));
    CHECK(!strcmp(mst_get_backend(NULL), "both"));
    for (int i = 0; i < 3; i++) {
        int *out = (me + i) % 2 ? device_memory : host_memory;
        in = 10 * i + me;
        OK(mst_all_gather_into_tensor(out, &in, 1, MST_I32, .timeout_ms = 60000));
        for (int r = 0; r < size; r++) CHECK(out[r] == 10 * i + r);
    }
    OK(mst_set_backend(NULL, "native"));
    for (int i = 0; i < 4; i++) gather(host_memory, i);
    OK(mst_set_backend(NULL, "cpu:native,cuda:both", .timeout_ms = 60000));
    for (int i = 0; i < 2; i++) gather(host_memory, i);
    int before = times_asked;
    gather(device_memory, 7); /* a kept call does not know that memory */
    CHECK(times_asked > before);
    OK(mst_set_backend(NULL, "native"));
}

/* Only the refused call fails, on all ranks; the group still works. */
void refused(void) {
    mst_backend floats = copy_example();
    int value = 1, more[2] = {1, 1};
    float x = 1, y = 1;
    mst_work *work, *before, *behind;
    floats.name = "floats";
    floats.rows = floats_rows;
    OK(mst_backend_register(&floats));
    OK(mst_set_backend(NULL, "floats"));
    check_floats();
    CHECK(mst_all_reduce(&value, 1, MST_I32) == MST_ERR_UNSUPPORTED && value == 1);
    check_floats();
    OK(mst_all_reduce(&x, 1, MST_F32, .work = &before));
    OK(mst_all_reduce(&value, 1, MST_I32, .work = &work));
    OK(mst_all_reduce(&y, 1, MST_F32, .work = &behind));
    CHECK(mst_wait(work) == MST_ERR_UNSUPPORTED);
    OK(mst_wait(before));
    OK(mst_wait(behind));
    CHECK(x == (float)size && y == (float)size);
    void *bufs[] = {&more[0], &more[1]};
    CHECK(mst_all_reduce_coalesced(bufs, ((size_t[]){1, 1}), 2, MST_I32) == MST_ERR_UNSUPPORTED);
    check_floats();
    OK(mst_set_backend(NULL, "native"));
}
