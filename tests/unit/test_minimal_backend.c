/* test_minimal_backend.c - examples/backend/minimal.c: what its ranks read from the store while they wait. */
#include "harness.h"

#include <dlfcn.h>
#include <muster/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 2, COUNT = 1 << 20, LOOKS = 50, KEYS = 64 };

/* The store of both ranks. */
static struct {
    char key[128];
    void *data;
    size_t len;
} keys[KEYS];
static size_t bytes_read;

static void **find(const char *key, size_t **len) {
    int i = 0;
    while (keys[i].key[0] && strcmp(keys[i].key, key) != 0) i++;
    assert_true(i < KEYS - 1);
    snprintf(keys[i].key, sizeof keys[i].key, "%s", key);
    *len = &keys[i].len;
    return &keys[i].data;
}

static mst_status set(const mst_backend_host *host, const char *key, const void *value, size_t len) {
    size_t *size;
    void **data = find(key, &size);
    (void)host;
    free(*data);
    *data = malloc(len);
    assert_non_null(*data);
    memcpy(*data, value, len);
    *size = len;
    return MST_OK;
}

static mst_status get(const mst_backend_host *host, const char *key, int64_t deadline, mst_bytes *value) {
    size_t *size;
    void **data = find(key, &size);
    (void)host;
    (void)deadline;
    if (!*data) return MST_ERR_TIMEOUT;
    value->data = malloc(*size + 1);
    assert_non_null(value->data);
    memcpy(value->data, *data, *size);
    value->len = *size;
    bytes_read += *size;
    return MST_OK;
}

static mst_status refuse(const mst_backend_host *host, mst_status status, int culprit, const char *remedy,
                         const char *what) {
    (void)host;
    (void)culprit;
    (void)remedy;
    (void)what;
    return status;
}

static const mst_backend *table;
static mst_backend_host hosts[RANKS];
static mst_backend_engine *engines[RANKS];
static float *in[RANKS], *out[RANKS];

static void advance(int rank, mst_backend_op *op) {
    bool done = false;
    for (int i = 0; i < LOOKS && !done; i++)
        assert_int_equal(table->progress(engines[rank], op, &done), MST_OK);
    assert_true(done);
}

/* A rank looks for the data of another one, which is late: nothing that it looks at may be large. */
static void look(int rank, mst_backend_op *op) {
    bool done = false;
    bytes_read = 0;
    for (int i = 0; i < LOOKS; i++) assert_int_equal(table->progress(engines[rank], op, &done), MST_OK);
    assert_false(done);
    assert_in_range(bytes_read, 0, 3 * COUNT * sizeof(float)); /* its own data, once */
}

static void fill(int rank, int round) {
    for (int i = 0; i < COUNT; i++) in[rank][i] = (float)(round * 10 + rank);
}

static void test_late_rank_of_a_gather(void **state) {
    (void)state;
    for (int round = 0; round < 4; round++) {
        mst_backend_op ops[RANKS];
        for (int r = 0; r < RANKS; r++) {
            fill(r, round);
            ops[r] = (mst_backend_op){.kind = MST_KIND_ALL_GATHER,
                                      .dtype = MST_F32,
                                      .element = sizeof(float),
                                      .count = COUNT,
                                      .in = in[r],
                                      .out = out[r]};
            assert_int_equal(table->submit(engines[r], &ops[r]), MST_OK);
            if (r == 0) look(0, &ops[0]);
        }
        for (int r = 0; r < RANKS; r++) {
            advance(r, &ops[r]);
            for (int i = 0; i < RANKS * COUNT; i++) assert_true(out[r][i] == (float)(round * 10 + i / COUNT));
        }
    }
}

static void test_late_sender(void **state) {
    (void)state;
    for (int round = 0; round < 4; round++) {
        mst_backend_op send = {.kind = MST_KIND_SEND,
                               .dtype = MST_F32,
                               .element = sizeof(float),
                               .count = COUNT,
                               .in = in[1],
                               .peer = 0,
                               .tag = 3};
        mst_backend_op receive = {.kind = MST_KIND_RECV,
                                  .dtype = MST_F32,
                                  .element = sizeof(float),
                                  .count = COUNT,
                                  .out = out[0],
                                  .peer = round % 2 ? 1 : -1,
                                  .tag = 3};
        bool done = false;
        fill(1, round);
        assert_int_equal(table->submit(engines[0], &receive), MST_OK);
        look(0, &receive);
        assert_int_equal(table->submit(engines[1], &send), MST_OK);
        assert_int_equal(table->progress(engines[1], &send, &done), MST_OK);
        advance(0, &receive);
        assert_int_equal(receive.sender, 1);
        assert_true(out[0][0] == (float)(round * 10 + 1) && out[0][COUNT - 1] == out[0][0]);
        advance(1, &send);
    }
}

static int open_engines(void **state) {
    static const int global[RANKS] = {0, 1};
    (void)state;
    void *library = dlopen(SAMPLE_BACKEND, RTLD_NOW);
    if (!library) fprintf(stderr, "%s\n", dlerror());
    if (!library) return -1;
    const mst_backend *(*module)(unsigned);
    *(void **)&module = dlsym(library, "mst_backend_module");
    table = module(MST_BACKEND_VERSION);
    for (int r = 0; r < RANKS; r++) {
        mst_backend_traits traits = {0};
        hosts[r] = (mst_backend_host){.size = sizeof *hosts,
                                      .rank = r,
                                      .ranks = RANKS,
                                      .global = global,
                                      .set = set,
                                      .get = get,
                                      .fail = refuse};
        in[r] = malloc(COUNT * sizeof(float));
        out[r] = malloc(RANKS * COUNT * sizeof(float));
        if (!in[r] || !out[r] || table->open(&hosts[r], &engines[r], &traits) != MST_OK) return -1;
    }
    return 0;
}

static int close_engines(void **state) {
    (void)state;
    for (int r = 0; r < RANKS; r++) {
        if (engines[r]) table->close(engines[r]);
        free(in[r]);
        free(out[r]);
    }
    for (int i = 0; i < KEYS; i++) free(keys[i].data);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late_rank_of_a_gather),
        cmocka_unit_test(test_late_sender),
    };
    return cmocka_run_group_tests(tests, open_engines, close_engines);
}
