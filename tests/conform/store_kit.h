/*
 * store_kit.h - the conformance suite's ground: every kind of store behind the same two handles.
 *
 * A test is given a struct stores in *state: a and b are two handles of one and the same store, as two
 * processes would have them (a hash store has but one handle, so there both are the same).
 */
#ifndef TESTS_CONFORM_STORE_KIT_H
#define TESTS_CONFORM_STORE_KIT_H

#include "harness.h"

#include "base/settings.h"
#include "custom_kit.h"
#include "store/store.h"

#include <muster/muster.h>

struct kind {
    const char *name, *base; /* base: tcp, file, hash or custom */
    const char *prefix;      /* "": none */
    const char *local;       /* MUSTER_STORE_LOCAL: whether tcp may use a Unix socket */
};

static const struct kind kinds[] = {{"hash", "hash", "", "1"},
                                    {"file", "file", "", "1"},
                                    {"tcp", "tcp", "", "0"},
                                    {"tcp by Unix socket", "tcp", "", "1"},
                                    {"custom", "custom", "", "1"},
                                    {"custom with all operations", "custom", "", "1"},
                                    {"prefix over hash", "hash", "pfx", "1"},
                                    {"prefix over file", "file", "pfx", "1"},
                                    {"prefix over tcp", "tcp", "pfx", "1"},
                                    {"prefix over custom", "custom", "pfx", "1"}};

struct stores {
    const struct kind *kind;
    mst_store *a, *b;
    mst_store *base_a, *base_b; /* under a prefix; else NULL */
    char dir[64];
};

enum { CALL_LIMIT_MS = 30000 };

static inline bool is_kind(const struct stores *s, const char *base) {
    return !strcmp(s->kind->base, base);
}

/* A custom store has no queues, and does not list or count its keys. */
static inline bool has_basic_only(const struct stores *s) {
    return is_kind(s, "custom");
}

/* Opens another handle of the same store; NULL where there can be none. */
static inline mst_store *open_more(const struct stores *s) {
    mst_store *store = NULL;
    char url[128];
    const mst_store *base = s->base_a ? s->base_a : s->a;
    if (is_kind(s, "hash")) return NULL;
    if (is_kind(s, "custom")) {
        assert_ok(mst_store_clone(s->base_a ? s->base_a : s->a, &store));
        return store;
    }
    if (is_kind(s, "file"))
        snprintf(url, sizeof url, "file://%s/store", s->dir);
    else
        snprintf(url, sizeof url, "tcp://127.0.0.1:%d", mst_store_port(base));
    assert_ok(mst_store_open(url, &store, .timeout_ms = CALL_LIMIT_MS));
    return store;
}

static inline mst_store *open_first(struct stores *s) {
    mst_store *store = NULL;
    char url[128];
    strcpy(s->dir, "/tmp/muster-store-XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    snprintf(url, sizeof url, "file://%s/store", s->dir);
    if (is_kind(s, "hash") || is_kind(s, "custom")) strcpy(url, "hash://");
    if (is_kind(s, "tcp")) strcpy(url, "tcp://127.0.0.1:0");
    assert_ok(mst_store_open(url, &store, .timeout_ms = CALL_LIMIT_MS, .is_master = is_kind(s, "tcp")));
    if (is_kind(s, "custom")) store = open_custom(store, strstr(s->kind->name, "all") != NULL);
    return store;
}

static inline int open_stores(void **state) {
    struct stores *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->kind = *state;
    setenv("MUSTER_STORE_LOCAL", s->kind->local, 1);
    s->a = open_first(s);
    s->b = is_kind(s, "hash") ? s->a : open_more(s);
    if (*s->kind->prefix) {
        s->base_a = s->a;
        s->base_b = s->b;
        assert_ok(mst_store_open_prefix(s->base_a, s->kind->prefix, &s->a));
        assert_ok(mst_store_open_prefix(s->base_b, s->kind->prefix, &s->b));
    }
    *state = s;
    return 0;
}

static inline int close_stores(void **state) {
    struct stores *s = *state;
    char path[128];
    mst_store *a = s->base_a ? s->base_a : s->a, *b = s->base_b ? s->base_b : s->b;
    if (s->base_a) {
        mst_store_free(s->b);
        mst_store_free(s->a);
    }
    if (b != a) mst_store_free(b);
    mst_store_free(a);
    snprintf(path, sizeof path, "%s/store", s->dir);
    unlink(path);
    int failed = rmdir(s->dir);
    free(s);
    return failed;
}

/* Runs each test over each kind, named "test (kind)". */
static inline int run_over_kinds(const struct CMUnitTest *tests, size_t n) {
    enum { K = COUNT_OF(kinds) };
    struct CMUnitTest *all = calloc(n * K, sizeof *all);
    char(*names)[128] = calloc(n * K, sizeof *names);
    setenv("MUSTER_STORE_LINGER_MS", "1000", 1); /* what a failed test left open shall not hold up the next */
    alarm(110);
    for (size_t i = 0; i < n * K; i++) {
        const struct kind *kind = &kinds[i % K];
        all[i] = tests[i / K];
        snprintf(names[i], sizeof names[i], "%.90s (%s)", all[i].name, kind->name);
        all[i].name = names[i];
        all[i].setup_func = open_stores;
        all[i].teardown_func = close_stores;
        all[i].initial_state = (void *)(uintptr_t)kind;
    }
    int failed = _cmocka_run_group_tests("store", all, n * K, NULL, NULL);
    free(names);
    free(all);
    return failed;
}

/* A value must be just these bytes, with a NUL behind them; frees it. */
static inline void assert_bytes(mst_bytes *value, const void *wanted, size_t n) {
    assert_int_equal(value->len, n);
    if (n) assert_memory_equal(value->data, wanted, n);
    assert_int_equal(value->data[n], 0);
    mst_bytes_free(value);
}

static inline void assert_get(mst_store *store, const char *key, const char *wanted) {
    mst_bytes value = {NULL, 0};
    assert_ok(mst_store_get(store, key, &value, .timeout_ms = CALL_LIMIT_MS));
    assert_bytes(&value, wanted, strlen(wanted));
}

static inline void put(mst_store *store, const char *key, const char *value) {
    assert_ok(mst_store_set(store, key, value, strlen(value)));
}

static inline bool has_key(mst_store *store, const char *key) {
    bool ready = false;
    assert_ok(mst_store_check(store, &key, 1, &ready));
    return ready;
}

static inline mst_status set_on_disconnect(mst_store *store, const char *key, const char *value) {
    struct msi_wait wait = {msi_deadline(CALL_LIMIT_MS), NULL};
    struct msi_store_rpc x = {
        .req = {.op = MSI_OP_ON_DISCONNECT, .key = msi_cstr(key), .value = msi_cstr(value)}};
    mst_status st = msi_store_exec(store, &wait, &x, 1);
    msi_store_rpc_free(&x, 1);
    return st;
}

#endif
