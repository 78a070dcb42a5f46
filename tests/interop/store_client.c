/*
 * store_client.c - our client against somebody else's store server, for test_torch.py.
 *
 *   operations URL [queue] [list]   every operation; those not named must be MST_ERR_UNSUPPORTED
 *   waits URL                       deadlines and cancellation, and that the handle survives them
 *   barrier URL KEY N               one of N who meet
 *   append URL TIMES                append the same byte to "c/shared"
 *   join URL WORLD [master]         be counted; the master waits for all, then for its stdin to end
 *   meet URL PARTIES ADDS           add to "meet/sum", then a barrier made of add and wait
 *   open URL TIMES                  connect again and again, one handle after the other
 *
 * Exits 0 if all went as it should, else says on stderr what did not.
 */
#include <muster/muster.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TIMEOUT_MS = 30000, SHORT_MS = 200, LARGE = 8 << 20, PORT_TAKEN = 98 };

#define CHECK(condition)                                                                                     \
    ((condition)                                                                                             \
         ? (void)0                                                                                           \
         : (fprintf(stderr, "%s:%d: %s\nlast error: %s\n", __FILE__, __LINE__, #condition, mst_error()),     \
            exit(1)))
#define OK(call)            CHECK((call) == MST_OK)
#define FAILS(call, status) CHECK((call) == (status))

static mst_store *open_store(const char *url) {
    mst_store *store = NULL;
    OK(mst_store_open(url, &store, .timeout_ms = TIMEOUT_MS));
    return store;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void expect(mst_store *store, const char *key, const void *value, size_t len) {
    mst_bytes got = {NULL, 0};
    OK(mst_store_get(store, key, &got));
    CHECK(got.len == len && memcmp(got.data, value, len) == 0);
    mst_bytes_free(&got);
}

static void values(mst_store *store) {
    static const char *const keys[] = {"", "a b", "a/b", "/x", "ключ", "new\nline", "%s%n", "-/k", "init/"};
    OK(mst_store_set(store, "c/k", "v\0w", 3));
    expect(store, "c/k", "v\0w", 3);
    OK(mst_store_set(store, "c/empty", "", 0));
    expect(store, "c/empty", "", 0);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        OK(mst_store_set(store, keys[i], keys[i], strlen(keys[i])));
        expect(store, keys[i], keys[i], strlen(keys[i]));
    }
    char *large = malloc(LARGE);
    CHECK(large);
    for (size_t i = 0; i < LARGE; i++) large[i] = (char)(i * 7 + (i >> 12));
    OK(mst_store_set(store, "c/large", large, LARGE));
    expect(store, "c/large", large, LARGE);
    free(large);
}

static void numbers(mst_store *store) {
    int64_t n = 0, keys = 0;
    bool deleted = true;
    OK(mst_store_add(store, "c/n", 5, &n));
    CHECK(n == 5);
    OK(mst_store_add(store, "c/n", -7, &n));
    CHECK(n == -2);
    expect(store, "c/n", "-2", 2);
    OK(mst_store_num_keys(store, &keys));
    OK(mst_store_delete_key(store, "c/n", &deleted));
    CHECK(deleted);
    OK(mst_store_delete_key(store, "c/n", &deleted));
    CHECK(!deleted);
    OK(mst_store_num_keys(store, &n));
    CHECK(n == keys - 1);
}

static void swaps(mst_store *store) {
    static const struct {
        const char *expected, *desired, *result;
    } steps[] = {{"x", "y", "x"}, {"", "one", "one"}, {"two", "three", "one"}, {"one", "two", "two"}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        mst_bytes got = {NULL, 0};
        OK(mst_store_compare_set(store, "c/swap", steps[i].expected, strlen(steps[i].expected),
                                 steps[i].desired, strlen(steps[i].desired), &got));
        CHECK(strcmp(got.data, steps[i].result) == 0);
        mst_bytes_free(&got);
    }
    expect(store, "c/swap", "two", 3);
}

static void several(mst_store *store) {
    const char *const keys[] = {"c/m1", "c/m2", "c/m3"};
    char one[] = "1", empty[] = "", two[] = "22";
    const mst_bytes given[] = {{one, 1}, {empty, 0}, {two, 2}};
    mst_bytes got[3];
    bool ready = true;
    OK(mst_store_check(store, keys, 3, &ready));
    CHECK(!ready);
    OK(mst_store_multi_set(store, keys, given, 3));
    OK(mst_store_wait(store, keys, 3));
    OK(mst_store_check(store, keys, 3, &ready));
    CHECK(ready);
    OK(mst_store_multi_get(store, keys, 3, got));
    for (int i = 0; i < 3; i++) {
        CHECK(got[i].len == given[i].len && memcmp(got[i].data, given[i].data, got[i].len) == 0);
        mst_bytes_free(&got[i]);
    }
    OK(mst_store_append(store, "c/append", "ab", 2));
    OK(mst_store_append(store, "c/append", "cd", 2));
    expect(store, "c/append", "abcd", 4);
}

static void queue(mst_store *store, bool known) {
    mst_bytes got = {NULL, 0};
    int64_t n = -1;
    if (!known) {
        FAILS(mst_store_queue_len(store, "c/q", &n), MST_ERR_UNSUPPORTED);
        FAILS(mst_store_queue_push(store, "c/q", "a", 1), MST_ERR_UNSUPPORTED);
        OK(mst_store_set(store, "c/q", "", 0));
        FAILS(mst_store_queue_pop(store, "c/q", &got), MST_ERR_UNSUPPORTED);
        return;
    }
    OK(mst_store_queue_len(store, "c/q", &n));
    CHECK(n == 0);
    FAILS(mst_store_queue_pop(store, "c/q", &got, .timeout_ms = SHORT_MS), MST_ERR_TIMEOUT);
    OK(mst_store_queue_push(store, "c/q", "first", 5));
    OK(mst_store_queue_push(store, "c/q", "", 0));
    OK(mst_store_queue_len(store, "c/q", &n));
    CHECK(n == 2);
    OK(mst_store_queue_pop(store, "c/q", &got));
    CHECK(strcmp(got.data, "first") == 0);
    mst_bytes_free(&got);
    OK(mst_store_queue_pop(store, "c/q", &got));
    CHECK(got.len == 0);
    mst_bytes_free(&got);
    OK(mst_store_set(store, "c/plain", "", 0)); /* exists, but is no queue */
    FAILS(mst_store_queue_pop(store, "c/plain", &got, .timeout_ms = SHORT_MS), MST_ERR_TIMEOUT);
}

static void list(mst_store *store, bool known) {
    char **keys = NULL;
    size_t n = 0, found = 0;
    if (!known) {
        FAILS(mst_store_list_keys(store, &keys, &n), MST_ERR_UNSUPPORTED);
        return;
    }
    OK(mst_store_list_keys(store, &keys, &n));
    for (size_t i = 0; i < n; i++) found += !strcmp(keys[i], "c/k") || !strcmp(keys[i], "c/append");
    CHECK(found == 2);
    mst_store_free_keys(keys);
}

static void operations(const char *url, int argc, char **argv) {
    bool has_queue = false, has_list = false;
    for (int i = 0; i < argc; i++) {
        has_queue = has_queue || !strcmp(argv[i], "queue");
        has_list = has_list || !strcmp(argv[i], "list");
    }
    mst_store *store = open_store(url), *inner, *innermost;
    values(store);
    numbers(store);
    swaps(store);
    several(store);
    queue(store, has_queue);
    list(store, has_list);
    expect(store, "c/k", "v\0w", 3); /* whatever was unsupported left the handle in order */
    OK(mst_store_open_prefix(store, "p", &inner));
    OK(mst_store_open_prefix(inner, "q", &innermost));
    OK(mst_store_set(innermost, "k", "nested", 6));
    expect(store, "p/q/k", "nested", 6);
    OK(mst_store_barrier(innermost, "alone", 1));
    mst_store_free(innermost);
    mst_store_free(inner);
    mst_store_free(store);
}

static void *fire_soon(void *cancel) {
    nanosleep(&(struct timespec){0, SHORT_MS * 1000000L}, NULL);
    mst_cancel_fire(cancel);
    return NULL;
}

/* The next call on the handle is right, so nothing of the one that was given up is left in the connection. */
static void still_in_step(mst_store *store, int round) {
    int64_t n = 0;
    OK(mst_store_add(store, "w/round", 1, &n));
    CHECK(n == round);
    expect(store, "w/value", "here", 4);
}

static void waits(const char *url) {
    mst_store *store = open_store(url), *other = open_store(url);
    const char *const never[] = {"w/value", "w/never"}, *const late[] = {"w/late"};
    mst_bytes got = {NULL, 0};
    mst_cancel *cancel;
    pthread_t thread;
    OK(mst_store_set(store, "w/value", "here", 4));
    double start = now();
    FAILS(mst_store_wait(store, never, 2, .timeout_ms = SHORT_MS), MST_ERR_TIMEOUT);
    CHECK(now() - start >= SHORT_MS / 1e3 && now() - start < 5);
    still_in_step(store, 1);
    FAILS(mst_store_get(store, "w/never", &got, .timeout_ms = SHORT_MS), MST_ERR_TIMEOUT);
    still_in_step(store, 2);
    FAILS(mst_store_barrier(store, "w/alone", 2, .timeout_ms = SHORT_MS), MST_ERR_TIMEOUT);
    still_in_step(store, 3);
    OK(mst_cancel_new(&cancel));
    CHECK(pthread_create(&thread, NULL, fire_soon, cancel) == 0);
    start = now();
    FAILS(mst_store_wait(store, never, 2, .cancel = cancel), MST_ERR_CANCELLED);
    CHECK(now() - start < 5);
    pthread_join(thread, NULL);
    still_in_step(store, 4);
    FAILS(mst_store_get(store, "w/never", &got, .cancel = cancel), MST_ERR_CANCELLED);
    mst_cancel_free(cancel);
    still_in_step(store, 5);
    /* A wait that was given up does not answer when its key comes after all. */
    FAILS(mst_store_wait(store, late, 1, .timeout_ms = SHORT_MS), MST_ERR_TIMEOUT);
    OK(mst_store_set(other, "w/late", "x", 1));
    still_in_step(store, 6);
    OK(mst_store_wait(store, late, 1));
    mst_store_free(other);
    mst_store_free(store);
}

static void join(const char *url, int world, bool master) {
    mst_store *store;
    mst_status st =
        mst_store_open(url, &store, .world_size = world, .is_master = master, .timeout_ms = TIMEOUT_MS);
    if (st == MST_ERR_PORT_TAKEN) exit(PORT_TAKEN);
    OK(st);
    OK(mst_store_add(store, "joined", 1, &(int64_t){0}));
    if (master) CHECK(getchar() == EOF); /* the others may still need the server */
    mst_store_free(store);
}

static void meet(const char *url, int parties, int adds) {
    mst_store *store = open_store(url);
    const char *const done[] = {"meet/done"};
    int64_t n = 0;
    for (int i = 0; i < adds; i++) OK(mst_store_add(store, "meet/sum", 1, &n));
    OK(mst_store_add(store, "meet/arrived", 1, &n));
    if (n == parties) OK(mst_store_set(store, done[0], "1", 1));
    OK(mst_store_wait(store, done, 1));
    OK(mst_store_add(store, "meet/sum", 0, &n));
    CHECK(n == (int64_t)parties * adds);
    mst_store_free(store);
}

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    const char *command = argv[1], *url = argv[2];
    int first = argc > 3 ? atoi(argv[3]) : 0;
    if (!strcmp(command, "operations")) {
        operations(url, argc - 3, argv + 3);
    } else if (!strcmp(command, "waits")) {
        waits(url);
    } else if (!strcmp(command, "barrier")) {
        CHECK(argc == 5);
        mst_store *store = open_store(url);
        OK(mst_store_barrier(store, argv[3], atoi(argv[4])));
        mst_store_free(store);
    } else if (!strcmp(command, "join")) {
        join(url, first, argc > 4 && !strcmp(argv[4], "master"));
    } else if (!strcmp(command, "meet")) {
        CHECK(argc == 5);
        meet(url, first, atoi(argv[4]));
    } else if (!strcmp(command, "append")) {
        mst_store *store = open_store(url);
        for (int i = 0; i < first; i++) OK(mst_store_append(store, "c/shared", "x", 1));
        OK(mst_store_num_keys(store, &(int64_t){0})); /* has an answer: what was before it is done */
        mst_store_free(store);
    } else if (!strcmp(command, "open")) {
        for (int i = 0; i < first; i++) mst_store_free(open_store(url));
    } else {
        CHECK(!"a command that is known");
    }
    return 0;
}
