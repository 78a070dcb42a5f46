/*
 * backends.c - which backend runs a group: chosen, asked for, exchanged. The program of test_backends.py, whose environment has the
 * sample backend's module on its path.
 *
 *   backends exchange     native and the sample take turns, in the world and in groups
 *   backends own          a backend that the program registers itself
 *   backends again        another backend after one that has failed
 *   backends limit        more than the store takes as one value (MUSTER_STORE_MAX_VALUE=64K)
 *   backends mistakes     what must be refused
 *   backends differ       rank 1 chooses another backend than the others
 *   backends absent       rank 1 does not come to open the backend
 *
 * Prints "ok" if all went well, else what did not.
 */
#include <dlfcn.h>
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void refuse(const char *backend, mst_status status, const char *words) {
    mst_status st = mst_set_backend(NULL, backend);
    if (st != status || !strstr(mst_error(), words)) {
        fprintf(stderr, "'%s' gave %s: %s\n", backend ? backend : "NULL", mst_status_name(st), mst_error());
        exit(1);
    }
    check_sum(NULL); /* and nothing has changed */
}

static void mistakes(void) {
    refuse(NULL, MST_ERR_INVALID, "backend is NULL");
    refuse("nativ", MST_ERR_UNSUPPORTED, "no backend 'nativ'");
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

/* Everybody learns of it, and the world goes on natively. */
static void differ(void) {
    int value = 1;
    int all[] = {0, 1, 2};
    mst_group *apart;
    OK(mst_new_group(all, 3, &apart, .backend = "native"));
    OK(mst_set_backend(NULL, me == 1 ? "shelf2" : "shelf"));
    mst_status st = mst_all_reduce(&value, 1, MST_I32, .timeout_ms = 5000);
    printf("%s %s\n", mst_status_name(st), mst_error());
    OK(mst_barrier(.group = apart)); /* nobody leaves before */
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
static void register_copy(void) {
    char file[4096];
    snprintf(file, sizeof file, "%s/mst_backend_shelf.so", getenv("MUSTER_BACKEND_PATH"));
    void *module = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    CHECK(module);
    const mst_backend *(*give)(unsigned);
    void *found = dlsym(module, "mst_backend_module");
    memcpy(&give, &found, sizeof give);
    mst_backend copy = *give(MST_BACKEND_VERSION);
    copy.name = "copy";
    OK(mst_backend_register(&copy));
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
    if (!strcmp(what, "differ")) differ();
    if (!strcmp(what, "absent")) absent();
    if (strcmp(what, "differ") != 0 && strcmp(what, "absent") != 0) {
        OK(mst_barrier());
        puts("ok");
    }
    fflush(stdout);
    OK(mst_destroy_process_group(NULL));
    return 0;
}
