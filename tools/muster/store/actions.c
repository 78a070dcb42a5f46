/*
 * actions.c - the actions of "muster store". See actions.h. Each runs on the main thread with an open store,
 * prints its result on stdout and returns the exit status. Values are bytes and printed unchanged.
 */
#include "store/actions.h"

#include "base/buf.h"
#include "cli/output_file.h"
#include "commands.h"
#include "os/wait.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STDIN_MAX = 1 << 30, STDIN_STEP = 64 * 1024 };

static int print_value(mst_status st, mst_bytes *value) {
    if (st != MST_OK) return store_failed(st);
    fwrite(value->data, 1, value->len, stdout);
    if (isatty(STDOUT_FILENO)) putchar('\n');
    mst_bytes_free(value);
    return EXIT_DONE;
}

/* Reads the value of an operand: the operand itself, or stdin if it is "-". 0, or an errno. */
static int read_value(const char *operand, struct msi_buf *value) {
    if (strcmp(operand, "-") != 0) {
        msi_buf_add_text(value, operand);
        return value->failed ? ENOMEM : 0;
    }
    while (!feof(stdin) && !ferror(stdin)) {
        if (value->len > STDIN_MAX || !msi_buf_reserve(value, STDIN_STEP)) return EFBIG;
        value->len += fread(value->data + value->len, 1, STDIN_STEP, stdin);
    }
    return ferror(stdin) ? EIO : 0;
}

typedef mst_status (*write_call)(mst_store *, const char *, const void *, size_t, const mst_store_call *);

static int write_value(struct store_session *s, write_call call) {
    struct msi_buf value = {0};
    int error = read_value(s->operands[1], &value), status = EXIT_FAILED;
    if (error) {
        fprintf(stderr, "muster store: cannot read the value from stdin: %s\n", strerror(error));
    } else {
        mst_status st = call(s->store, s->operands[0], msi_buf_text(&value), value.len,
                             MST_OPTIONS(mst_store_call, .cancel = s->cancel));
        status = st == MST_OK ? EXIT_DONE : store_failed(st);
    }
    msi_buf_free(&value);
    return status;
}

static int do_set(struct store_session *s) {
    return write_value(s, mst_store_set_with);
}

static int do_append(struct store_session *s) {
    return write_value(s, mst_store_append_with);
}

static int do_push(struct store_session *s) {
    return write_value(s, mst_store_queue_push_with);
}

static int do_get(struct store_session *s) {
    mst_bytes value;
    mst_status st = mst_store_get(s->store, s->operands[0], &value, .cancel = s->cancel);
    return print_value(st, &value);
}

static int do_pop(struct store_session *s) {
    mst_bytes value;
    mst_status st = mst_store_queue_pop(s->store, s->operands[0], &value, .cancel = s->cancel);
    return print_value(st, &value);
}

static int print_number(mst_status st, int64_t number) {
    if (st != MST_OK) return store_failed(st);
    printf("%lld\n", (long long)number);
    return EXIT_DONE;
}

static int do_add(struct store_session *s) {
    int64_t sum = 0;
    mst_status st = mst_store_add(s->store, s->operands[0], s->number, &sum, .cancel = s->cancel);
    return print_number(st, sum);
}

static int do_len(struct store_session *s) {
    int64_t length = 0;
    mst_status st = mst_store_queue_len(s->store, s->operands[0], &length, .cancel = s->cancel);
    return print_number(st, length);
}

static int do_wait(struct store_session *s) {
    const char *const *keys = (const char *const *)s->operands;
    mst_status st = mst_store_wait(s->store, keys, (size_t)s->n, .cancel = s->cancel);
    return st == MST_OK ? EXIT_DONE : store_failed(st);
}

static int do_check(struct store_session *s) {
    const char *const *keys = (const char *const *)s->operands;
    bool ready = false;
    mst_status st = mst_store_check(s->store, keys, (size_t)s->n, &ready, .cancel = s->cancel);
    if (st != MST_OK) return store_failed(st);
    puts(ready ? "yes" : "no");
    return ready ? EXIT_DONE : EXIT_FAILED;
}

static int do_del(struct store_session *s) {
    bool deleted = false;
    mst_status st = mst_store_delete_key(s->store, s->operands[0], &deleted, .cancel = s->cancel);
    if (st != MST_OK) return store_failed(st);
    puts(deleted ? "deleted" : "not found");
    return deleted ? EXIT_DONE : EXIT_FAILED;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int do_list(struct store_session *s) {
    char **keys;
    size_t count;
    mst_status st = mst_store_list_keys(s->store, &keys, &count, .cancel = s->cancel);
    if (st != MST_OK) return store_failed(st);
    if (count > 0) qsort(keys, count, sizeof keys[0], by_name);
    for (size_t i = 0; i < count; i++) puts(keys[i]);
    mst_store_free_keys(keys);
    return EXIT_DONE;
}

static int do_serve(struct store_session *s) {
    const struct msi_wait until_signal = {INT64_MAX, s->cancel};
    const char *path = s->options.port_file;
    int port = mst_store_port(s->store);
    char address[STORE_ADDRESS];
    mst_status st = MST_OK;
    FILE *file;
    if (path && (st = output_file_open(path, &file)) == MST_OK) {
        fprintf(file, "%d\n", port);
        st = output_file_commit(file, path);
    }
    if (st != MST_OK) return store_failed(st);
    printf("muster store: listening on %s\n", store_address(s->options.host, port, address));
    fflush(stdout);
    msi_wait_fd(&until_signal, -1, 0, "muster store serve");
    if (path) unlink(path);
    return EXIT_DONE;
}

const struct store_action store_actions[] = {
    {"serve", "", 0, 0, true, false, do_serve, "host a store until a signal ends it"},
    {"get", "KEY", 1, 1, false, false, do_get, "print a value, waiting until the key exists"},
    {"set", "KEY VALUE", 2, 2, false, false, do_set, "set a key; for the value -, read stdin"},
    {"add", "KEY N", 2, 2, false, true, do_add, "add a whole number to a key and print the sum"},
    {"append", "KEY VALUE", 2, 2, false, false, do_append, "append to a value"},
    {"wait", "KEY ...", 1, INT_MAX, false, false, do_wait, "wait until all the keys exist"},
    {"check", "KEY ...", 1, INT_MAX, false, false, do_check, "say whether all the keys exist now"},
    {"del", "KEY", 1, 1, false, false, do_del, "delete a key"},
    {"list", "", 0, 0, false, false, do_list, "print all keys, sorted"},
    {"push", "KEY VALUE", 2, 2, false, false, do_push, "put a value at the end of a queue"},
    {"pop", "KEY", 1, 1, false, false, do_pop, "take the first value of a queue, waiting until there is one"},
    {"len", "KEY", 1, 1, false, false, do_len, "print how many values a queue holds"},
};
const size_t store_n_actions = sizeof store_actions / sizeof store_actions[0];
