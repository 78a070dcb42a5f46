/*
 * backends.c - which backend runs a group: chosen, asked for, exchanged. The program of test_backends.py, whose environment has the
 * sample backend's module on its path.
 *
 *   backends exchange     native and the sample take turns, in the world and in groups
 *   backends own          a backend that the program registers itself
 *   backends again        another backend after one that has failed
 *   backends limit        more than the store takes as one value (MUSTER_STORE_MAX_VALUE=64K)
 *   backends mistakes     what must be refused
 *   backends refused      operations that a backend can neither do nor be made to
 *   backends memories     a backend for two kinds of memory, of which ranks use different ones
 *   backends batches      two threads that batch on one group at a time
 *   backends streams      what is left alone on a stream is watched, but not for ever, and in nobody's way
 *   backends differ       rank 1 chooses another backend than the others, in an exchange
 *   backends apart W      … for a new group, as which W says: native beside others, others beside native, or none
 *   backends uneven NAME  rank 1 exchanges the backend NAME once more than the others
 *   backends late         rank 1 does not come to an exchange
 *   backends absent       rank 1 does not come to open the backend
 *
 * Prints "ok" if all went well, else what did not.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <muster/muster.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SOON_MS = 400 };

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "backends.c:%d: %s; %s\n", __LINE__, #condition, mst_error());                   \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)
#define OK(call) CHECK((call) == MST_OK)

static int me, size;

static void check_sum(mst_group *group) {
    int value = me + 1, sum = 0;
    int ranks = mst_get_world_size(group);
    for (int i = 0; i < ranks; i++) sum += mst_get_global_rank(group, i) + 1;
    OK(mst_all_reduce(&value, 1, MST_I32, .group = group));
    CHECK(value == sum);
}

static void exchange(void) {
    int all[16];
    mst_group *follows, *stays;
    mst_work *work;
    float x = 1;
    for (int r = 0; r < size; r++) all[r] = r;
    OK(mst_new_group(all, size, &follows));
    OK(mst_new_group(all, size, &stays, .backend = "shelf"));
    CHECK(!strcmp(mst_get_backend(NULL), "native") && mst_has_reduce_scatter_tensor());
    CHECK(!strcmp(mst_get_backend(stays), "shelf"));
    OK(mst_all_reduce(&x, 1, MST_F32, .work = &work));
    while (mst_set_backend(NULL, "shelf") == MST_ERR_STATE) { /* until it is done */
    }
    for (int turn = 0; turn < 6; turn++) {
        const char *name = turn % 2 ? "native" : "shelf";
        OK(mst_set_backend(NULL, name));
        CHECK(!strcmp(mst_get_backend(NULL), name) && !strcmp(mst_get_backend(follows), name));
        CHECK(!strcmp(mst_get_backend(stays), "shelf"));
        CHECK(mst_has_reduce_scatter_tensor() == (turn % 2 == 1));
        check_sum(NULL);
        check_sum(follows);
        check_sum(stays);
    }
    OK(mst_wait(work));
    CHECK(x == (float)size);
    OK(mst_set_backend(follows, "shelf"));
    CHECK(!strcmp(mst_get_backend(follows), "shelf") && !strcmp(mst_get_backend(NULL), "native"));
    check_sum(follows);
    OK(mst_destroy_process_group(follows));
    check_sum(NULL);
}

/* An engine for a group of one, that counts; what is stuck is not over before close. */
static int opened, submitted, closed;
static bool stuck;
static mst_backend_op *last;

static bool own_probe(char *text, size_t capacity) {
    snprintf(text, capacity, "made here");
    return true;
}
static const mst_backend_row *own_rows(void) {
    static const mst_backend_row rows[] = {{.kinds = 1u << MST_KIND_BROADCAST}, {0}};
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
    if (stuck) last->request = NULL; /* it is still there */
    closed++;
}

static mst_backend own_table = {
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

static void own(void) {
    mst_group *alone;
    int value = 7;
    OK(mst_backend_register(&own_table));
    CHECK(mst_backend_register(&own_table) == MST_ERR_STATE);
    OK(mst_new_group(&me, 1, &alone, .backend = "own"));
    OK(mst_broadcast(&value, 1, MST_I32, .group = alone, .src = me));
    CHECK(opened == 1 && submitted == 1 && value == 7);
    CHECK(mst_all_reduce(&value, 1, MST_I32, .group = alone) == MST_OK); /* made of broadcasts */
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
    OK(mst_broadcast(&value, 1, MST_I32, .group = alone, .src = me, .work = &work));
    OK(mst_destroy_process_group(alone));
    CHECK(closed == 2 && mst_wait(work) == MST_ERR_STATE);
}

static mst_status own_begin(mst_backend_engine *engine) {
    (void)engine;
    return MST_OK;
}

/* Counts what is submitted between begin and end, which must be all of one batch. */
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
    memmove(op->out, op->in, op->count * op->element);
    return MST_OK;
}
static mst_status batch_open(const mst_backend_host *host, mst_backend_engine **engine,
                             mst_backend_traits *traits) {
    (void)host;
    traits->ordered = true;
    *engine = (mst_backend_engine *)(void *)&in_batch;
    return MST_OK;
}
static const mst_backend_row *batch_rows(void) {
    static const mst_backend_row rows[] = {{.kinds = 1u << MST_KIND_ALL_GATHER, .forms = MST_FORM_IN_PLACE},
                                           {0}};
    return rows;
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
        OK(mst_all_gather_coalesced(to, from, counts, BATCH, MST_I32, .group = group));
        for (int i = 0; i < BATCH; i++) CHECK(outs[i] == round + i);
    }
    return NULL;
}

static void batches(void) {
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
    in_batch =
        0; /* the first is none; it starts the group's thread, and what follows may come from several */
    OK(mst_all_gather_into_tensor(&out, &in, 1, MST_I32, .group = alone, .work = &work));
    OK(mst_wait(work));
    in_batch = -1;
    submitted = 0;
    pthread_barrier_init(&both_start, NULL, 2);
    for (int i = 0; i < 2; i++) CHECK(!pthread_create(&threads[i], NULL, batch_thread, alone));
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    CHECK(submitted == 2 * ROUNDS * BATCH && broken == 0);
    OK(mst_destroy_process_group(alone));
}

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* How often the group's thread has gone to sleep. */
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

/* The driver stops the store between the two lines that it writes, and lets it go on after the second. */
static void streams(void) {
    enum { WATCHED_MS = 3000, CALLS_MS = 2000, QUIET_MS = 700 };
    mst_group *alone;
    int value = 1, stream;
    char line[16];
    double longest = 0;
    OK(mst_backend_register(&own_table));
    OK(mst_new_group(&me, 1, &alone, .backend = "own"));
    OK(mst_broadcast(&value, 1, MST_I32, .group = alone, .src = me, .timeout_ms = WATCHED_MS,
                     .stream = &stream));
    while (sleeps() < 0) usleep(1000); /* until it has its name */
    long before = sleeps();
    usleep(QUIET_MS * 1000);
    CHECK(sleeps() > before);
    puts("ready");
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin));
    for (double end = now_ms() + CALLS_MS; now_ms() < end; usleep(230000)) { /* it looks in between */
        double begin = now_ms();
        OK(mst_broadcast(&value, 1, MST_I32, .group = alone, .src = me));
        if (now_ms() - begin > longest) longest = now_ms() - begin;
    }
    printf("longest %.0f ms\n", longest);
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin));
    usleep((WATCHED_MS - CALLS_MS) * 1000);
    before = sleeps();
    usleep(QUIET_MS * 1000);
    CHECK(sleeps() == before);
}

static void refuse(const char *backend, mst_status status, const char *words) {
    mst_status st = mst_set_backend(NULL, backend);
    if (st != status || !strstr(mst_error(), words) || !strstr(mst_error(), "backends.c:")) {
        fprintf(stderr, "'%s' gave %s: %s\n", backend ? backend : "NULL", mst_status_name(st), mst_error());
        exit(1);
    }
    check_sum(NULL); /* and nothing has changed */
}

static void mistakes(void) {
    refuse(NULL, MST_ERR_INVALID, "backend is NULL");
    refuse("nativ", MST_ERR_UNSUPPORTED, "no backend 'nativ'; did you mean 'native'?");
    refuse("shelff", MST_ERR_UNSUPPORTED, "no backend 'shelff'; did you mean 'shelf'?");
    refuse("unlike", MST_ERR_UNSUPPORTED, "no backend 'unlike'; see `muster info`");
    char beyond[200];
    memset(beyond, 'x', sizeof beyond - 1);
    beyond[sizeof beyond - 1] = '\0';
    refuse(beyond, MST_ERR_INVALID, "has 199 characters, which is more than any has (79)");
    CHECK(mst_backend_list(0, NULL, NULL, NULL, 0) && mst_backend_list(0, NULL, NULL, beyond, sizeof beyond));
    CHECK(!mst_backend_list(-1, NULL, NULL, NULL, 0) && !mst_backend_list(99, NULL, NULL, NULL, 0));
    refuse("../native", MST_ERR_INVALID, "'../native' is no backend");
    refuse("tpu:native", MST_ERR_INVALID, "'tpu:native' names no memory");
    refuse("cuda:native", MST_ERR_INVALID, "'native' cannot serve memory of the device");
    refuse("native,shelf", MST_ERR_INVALID, "'native' and 'shelf' are for the same memory");
    refuse("native,", MST_ERR_INVALID, "'' is no backend");
    mst_backend bad = own_table;
    bad.version = 99;
    CHECK(mst_backend_register(&bad) == MST_ERR_INVALID && strstr(mst_error(), "version 99"));
    bad = own_table;
    bad.progress = NULL;
    CHECK(mst_backend_register(&bad) == MST_ERR_INVALID && strstr(mst_error(), "lacks progress"));
    bad = own_table;
    bad.group_begin = own_begin;
    CHECK(mst_backend_register(&bad) == MST_ERR_INVALID && strstr(mst_error(), "lacks group_end"));
    bad = own_table;
    bad.name = "a b";
    CHECK(mst_backend_register(&bad) == MST_ERR_INVALID && strstr(mst_error(), "'a b' is no name"));
    bad.name = "native";
    CHECK(mst_backend_register(&bad) == MST_ERR_STATE);
    bad.size = 8;
    CHECK(mst_backend_register(&bad) == MST_ERR_INVALID && mst_backend_register(NULL) == MST_ERR_INVALID);
    mst_group *group;
    CHECK(mst_new_group(&me, 1, &group, .backend = "none") == MST_ERR_UNSUPPORTED);
}

static void tell(mst_status st) {
    printf("%s culprit %d %s\n", mst_status_name(st), mst_last_error()->culprit, mst_error());
}

/* Everybody learns of it, and the world goes on natively. */
static void differ(void) {
    tell(mst_set_backend(NULL, me == 1 ? "shelf2" : "shelf"));
    check_sum(NULL);
    tell(mst_set_backend(NULL, me == 1 ? "native" : "shelf"));
    check_sum(NULL);
    tell(mst_set_backend(NULL, me == 1 ? "nothing" : "shelf"));
    check_sum(NULL);
    OK(mst_set_backend(NULL, "shelf"));
    check_sum(NULL);
}

/* A group is made without waiting for the others: who is first learns of it in its first operation. */
static void apart(const char *which) {
    int value = 1, all[] = {0, 1, 2};
    const char *mine = !strcmp(which, "native") == (me == 1) ? "native" : "shelf";
    mst_group *group;
    mst_status st = mst_new_group(all, 3, &group, .backend = !strcmp(which, "none") && me != 1 ? NULL : mine);
    if (st == MST_OK) st = mst_all_reduce(&value, 1, MST_I32, .group = group);
    tell(st);
    check_sum(NULL);
}

/* The others are in an operation by then, of the world or of a group that follows it. */
static void uneven(const char *name, bool in_group) {
    int value = 1, all[] = {0, 1, 2};
    mst_group *follows, *stays;
    OK(mst_new_group(all, 3, &follows));
    OK(mst_new_group(all, 3, &stays, .backend = "native"));
    OK(mst_set_backend(NULL, name));
    check_sum(NULL);
    check_sum(follows);
    tell(me == 1 ? mst_set_backend(NULL, "native")
                 : mst_all_reduce(&value, 1, MST_I32, .group = in_group ? follows : NULL));
    check_sum(stays);
    OK(mst_set_backend(NULL, name)); /* and all is well again */
    check_sum(NULL);
    check_sum(follows);
}

static void late(void) {
    if (me != 1) tell(mst_set_backend(NULL, "shelf", .timeout_ms = SOON_MS));
    check_sum(NULL);
    if (me == 1) tell(mst_set_backend(NULL, "shelf"));
    check_sum(NULL);
    OK(mst_set_backend(NULL, "shelf"));
    check_sum(NULL);
}

static void absent(void) {
    int value = 1;
    int all[] = {0, 1, 2};
    mst_group *apart;
    OK(mst_new_group(all, 3, &apart, .backend = "native"));
    OK(mst_set_backend(NULL, "shelf"));
    if (me != 1) {
        mst_status st = mst_all_reduce(&value, 1, MST_I32, .timeout_ms = SOON_MS);
        printf("%s %s\n", mst_status_name(st), mst_error());
    }
    OK(mst_barrier(.group = apart)); /* nobody leaves before */
}

/* The sample under another name. */
static mst_backend second;
static void register_second(void) {
    const mst_backend_row *rows = mst_backend_rows("shelf");
    CHECK(rows);
    second = own_table;
    second.name = "shelf2";
    OK(mst_backend_register(&second));
}

/* The same, so that it works. */
static mst_backend copy_sample(void) {
    char file[4096];
    snprintf(file, sizeof file, "%s/mst_backend_shelf.so", getenv("MUSTER_BACKEND_PATH"));
    void *module = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    CHECK(module);
    const mst_backend *(*give)(unsigned);
    void *found = dlsym(module, "mst_backend_module");
    memcpy(&give, &found, sizeof give);
    return *give(MST_BACKEND_VERSION);
}

static void register_copy(void) {
    mst_backend copy = copy_sample();
    copy.name = "copy";
    OK(mst_backend_register(&copy));
}

static const mst_backend_row *floats_rows(void) {
    static const mst_backend_row rows[] = {{.kinds = 1u << MST_KIND_ALL_GATHER, .dtypes = 1u << MST_F32},
                                           {0}};
    return rows;
}

static void check_floats(void) {
    float x = 1;
    OK(mst_all_reduce(&x, 1, MST_F32));
    CHECK(x == (float)size);
}

/* Memory that counts as the device's. */
static int device_memory[16];
static mst_memory both_memory_of(const void *pointer) {
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
static const mst_backend_row *both_rows(void) {
    static const mst_backend_row rows[] = {
        {.kinds = 1u << MST_KIND_ALL_GATHER, .memories = 1u << MST_MEMORY_HOST | 1u << MST_MEMORY_CUDA}, {0}};
    return rows;
}

static void memories(void) {
    mst_backend both = copy_sample();
    int host_memory[16], in;
    both.name = "both";
    both.rows = both_rows;
    both.memory_of = both_memory_of;
    both.alloc = both_alloc;
    both.release = both_release;
    both.copy = both_copy;
    OK(mst_backend_register(&both));
    OK(mst_set_backend(NULL, "cuda:both,cpu:both", .timeout_ms = 5000));
    CHECK(!strcmp(mst_get_backend(NULL), "both"));
    for (int turn = 0; turn < 3; turn++) {
        int *out = (me + turn) % 2 ? device_memory : host_memory;
        in = 10 * turn + me;
        OK(mst_all_gather_into_tensor(out, &in, 1, MST_I32, .timeout_ms = 5000));
        for (int r = 0; r < size; r++) CHECK(out[r] == 10 * turn + r);
    }
    OK(mst_set_backend(NULL, "native"));
}

/* Only the call fails that was refused, on all ranks, and the group goes on. */
static void refused(void) {
    mst_backend floats = copy_sample();
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

/* Rank 1 makes the others fail in one, and look around for a while in the next. */
static void again(void) {
    int all[] = {0, 1, 2}, value = 1;
    mst_group *apart;
    register_copy();
    OK(mst_new_group(all, 3, &apart, .backend = "native"));
    OK(mst_set_backend(NULL, "shelf"));
    check_sum(NULL);
    if (me != 1) CHECK(mst_all_reduce(&value, 1, MST_I32, .timeout_ms = SOON_MS) == MST_ERR_STALLED);
    OK(mst_barrier(.group = apart));
    OK(mst_set_backend(NULL, "copy"));
    if (me == 1) usleep(2 * SOON_MS * 1000);
    check_sum(NULL);
    /* Both that have failed and the one that has not can be returned to, and so can native after a failure of its own. */
    for (int turn = 0; turn < 2; turn++) {
        OK(mst_set_backend(NULL, "shelf"));
        check_sum(NULL);
        OK(mst_set_backend(NULL, turn ? "native" : "copy"));
        check_sum(NULL);
    }
    mst_status st = me == 1 ? mst_barrier() : mst_all_reduce(&value, 1, MST_I32);
    CHECK(st == MST_ERR_MISMATCH && mst_barrier() == MST_ERR_MISMATCH);
    for (int turn = 0; turn < 2; turn++) {
        OK(mst_set_backend(NULL, "native"));
        check_sum(NULL);
    }
    /* One that some ranks could not open, as another did not come. */
    OK(mst_set_backend(apart, "shelf"));
    if (me != 1)
        CHECK(mst_all_reduce(&value, 1, MST_I32, .group = apart, .timeout_ms = SOON_MS) == MST_ERR_STALLED);
    check_sum(NULL);
    OK(mst_set_backend(apart, "native"));
    OK(mst_set_backend(apart, "shelf"));
    check_sum(apart);
}

/* It is refused with both sizes, and the store goes on. */
static void limit(void) {
    static char in[64 << 10], out[sizeof in * 16];
    int all[16];
    mst_group *group;
    for (int r = 0; r < size; r++) all[r] = r;
    OK(mst_new_group(all, size, &group, .backend = "shelf"));
    check_sum(group);
    OK(mst_all_gather_into_tensor(out, in, sizeof in - 8, MST_U8, .group = group));
    CHECK(mst_all_gather_into_tensor(out, in, sizeof in, MST_U8, .group = group) == MST_ERR_LIMIT);
    CHECK(strstr(mst_error(), "65544 bytes") && strstr(mst_error(), "limit is 65536"));
    CHECK(strstr(mst_error(), "MUSTER_STORE_MAX_VALUE"));
    OK(mst_new_group(all, size, &group, .backend = "shelf"));
    check_sum(group);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "differ")) register_second();
    OK(mst_init());
    me = mst_get_rank(NULL);
    size = mst_get_world_size(NULL);
    if (!strcmp(what, "exchange")) exchange();
    if (!strcmp(what, "own")) own();
    if (!strcmp(what, "again")) again();
    if (!strcmp(what, "limit")) limit();
    if (!strcmp(what, "mistakes")) mistakes();
    if (!strcmp(what, "refused")) refused();
    if (!strcmp(what, "memories")) memories();
    if (!strcmp(what, "batches")) batches();
    if (!strcmp(what, "streams")) streams();
    if (!strcmp(what, "differ")) differ();
    if (!strcmp(what, "apart")) apart(argc > 2 ? argv[2] : "");
    if (!strcmp(what, "uneven")) uneven(argc > 2 ? argv[2] : "native", argc > 3);
    if (!strcmp(what, "late")) late();
    if (!strcmp(what, "absent")) absent();
    if (strcmp(what, "absent") != 0) {
        OK(mst_barrier());
        puts("ok");
    }
    fflush(stdout);
    OK(mst_destroy_process_group(NULL));
    return 0;
}
