/* admission.c - see admission.h. */
#include "bootstrap/admission.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "bootstrap/report.h"
#include "os/host.h"
#include "wire/cursor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void msi_continued_run(char run[MSI_RUN_MAX], const char *lineage, int64_t epoch) {
    snprintf(run, MSI_RUN_MAX, "%.80s.e%" PRId64, lineage, epoch);
}

/* Runs one request on a key of the lineage and returns its status; the caller frees x. */
static mst_status run(struct mst_store *store, const struct msi_wait *wait, struct msi_store_rpc *x) {
    return msi_store_exec(store, wait, x, 1);
}

/* A line of the log; the caller frees *line. */
static struct msi_str make_line(struct msi_buf *line, char kind, uint64_t nonce, const char *what) {
    line->len = 0;
    msi_joiner_event_write(line, &(struct msi_joiner_event){kind, nonce}, what);
    return msi_buf_str(line);
}

static mst_status append(struct mst_store *store, const char *lineage, const struct msi_wait *wait,
                         struct msi_str line) {
    char key[MSI_KEY_MAX];
    struct msi_store_rpc x = {
        .req = {.op = MSI_OP_APPEND, .key = msi_key(key, "muster/%s/joiners", lineage), .value = line}};
    mst_status st = run(store, wait, &x);
    msi_store_rpc_free(&x, 1);
    return st;
}

/* The store tells the members if this process ends before it is admitted. */
static mst_status announce(struct mst_store *store, const char *lineage, const struct msi_wait *wait,
                           uint64_t nonce) {
    char key[MSI_KEY_MAX], host[MSI_HOST_MAX], who[MSI_HOST_MAX + 40];
    struct msi_buf line = {0};
    struct msi_store_rpc x = {.req = {.op = MSI_OP_ON_DISCONNECT,
                                      .key = msi_key(key, "muster/%s/joiners", lineage),
                                      .value = make_line(&line, '-', nonce, "")}};
    mst_status st = line.failed ? msi_fail_memory() : run(store, wait, &x);
    msi_store_rpc_free(&x, 1);
    msi_host_name(host);
    snprintf(who, sizeof who, "host %s, pid %d", host, (int)getpid());
    if (st == MST_OK) st = append(store, lineage, wait, make_line(&line, '+', nonce, who));
    msi_buf_free(&line);
    return st;
}

/* Removes this process from the list, because of the thread's last failure. */
static void withdraw(struct mst_store *store, const char *lineage, uint64_t nonce, mst_status status) {
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    struct msi_saved_error error;
    struct msi_store_rpc x = {.req = {.op = MSI_OP_ON_DISCONNECT}};
    struct msi_buf line = {0};
    msi_error_save(&error, status);
    append(store, lineage, &wait, make_line(&line, '-', nonce, ""));
    run(store, &wait, &x);
    msi_store_rpc_free(&x, 1);
    msi_buf_free(&line);
    msi_error_restore(&error);
}

static mst_status read_place(struct msi_str text, struct msi_admission *given) {
    if (msi_admission_read(text, given)) return MST_OK;
    return msi_fail(MST_ERR_PROTOCOL, NULL, "the store holds '%.*s' where the place of a new rank should be",
                    MSI_SHOW(text));
}

mst_status msi_admission_wait(struct mst_store *store, const char *lineage, const struct msi_wait *wait,
                              struct msi_admission *given) {
    char key[MSI_KEY_MAX];
    uint64_t nonce;
    msi_random(&nonce, sizeof nonce);
    mst_status st = announce(store, lineage, wait, nonce);
    msi_key(key, "muster/%s/admit/%016" PRIx64, lineage, nonce);
    struct msi_str place = msi_cstr(key);
    struct msi_store_rpc x = {.req = {.op = MSI_OP_WAIT_GET, .n = 1, .keys = &place}};
    if (st == MST_OK) {
        msi_log(bootstrap, INFO, "waiting until the ranks of %s call mst_grow_world", lineage);
        st = run(store, wait, &x);
    }
    struct msi_reader r = msi_reader(x.reply.data, x.reply.len);
    if (st == MST_OK) st = read_place(msi_read_str(&r), given);
    if (st != MST_OK) withdraw(store, lineage, nonce, st);
    if (st == MST_ERR_TIMEOUT)
        st =
            msi_fail(MST_ERR_STALLED, "let the ranks of that world call mst_grow_world, or raise .timeout_ms",
                     "the ranks of the running world have not admitted this process in time");
    msi_store_rpc_free(&x, 1);
    return st;
}

/* Removes a nonce from the list, if it is there. */
static void drop(struct msi_joiners *joiners, uint64_t nonce) {
    for (int i = 0; i < joiners->n; i++)
        if (joiners->nonces[i] == nonce) {
            joiners->n--;
            memmove(joiners->nonces + i, joiners->nonces + i + 1,
                    (size_t)(joiners->n - i) * sizeof *joiners->nonces);
            return;
        }
}

static bool read_log(struct msi_str log, struct msi_joiners *joiners) {
    joiners->seen = (int64_t)log.n;
    joiners->n = 0;
    joiners->nonces = malloc((log.n / 3 + 1) * sizeof *joiners->nonces); /* a line has 3 bytes or more */
    if (!joiners->nonces) return false;
    for (struct msi_joiner_event event; msi_joiner_event_next(&log, &event);) {
        drop(joiners, event.nonce);
        if (event.kind == '+') joiners->nonces[joiners->n++] = event.nonce;
    }
    return true;
}

mst_status msi_joiners_read(struct mst_store *store, const char *lineage, const struct msi_wait *wait,
                            struct msi_joiners *joiners) {
    char key[MSI_KEY_MAX];
    struct msi_store_rpc x = {.req = msi_read_request(msi_key(key, "muster/%s/joiners", lineage))};
    *joiners = (struct msi_joiners){0};
    mst_status st = run(store, wait, &x);
    if (st == MST_OK && !read_log(msi_store_reply_value(&x), joiners)) st = msi_fail_memory();
    msi_store_rpc_free(&x, 1);
    return st;
}

mst_status msi_joiners_wait(struct mst_store *store, const char *lineage, const struct msi_wait *wait,
                            const struct msi_joiners *joiners) {
    char keys[2][MSI_KEY_MAX];
    struct msi_str never = msi_key(keys[0], "muster/%s/never", lineage);
    struct msi_store_rpc x[] = {{.req = {.op = MSI_OP_GUARD,
                                         .key = msi_key(keys[1], "muster/%s/joiners", lineage),
                                         .number = joiners->seen}},
                                {.req = {.op = MSI_OP_WAIT, .n = 1, .keys = &never}}};
    mst_status st = msi_store_exec(store, wait, x, 2);
    msi_store_rpc_free(x, 2);
    return st == MST_ERR_PEER_LOST ? MST_OK : st;
}

mst_status msi_joiner_admit(struct mst_store *store, const char *lineage, const struct msi_wait *wait,
                            uint64_t nonce, const struct msi_admission *given) {
    char keys[2][MSI_KEY_MAX];
    struct msi_buf line = {0}, place = {0};
    msi_admission_write(&place, given);
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_APPEND,
                 .key = msi_key(keys[0], "muster/%s/joiners", lineage),
                 .value = make_line(&line, '=', nonce, "")}},
        {.req = {.op = MSI_OP_SET,
                 .key = msi_key(keys[1], "muster/%s/admit/%016" PRIx64, lineage, nonce),
                 .value = msi_buf_str(&place)}},
    };
    mst_status st = line.failed || place.failed ? msi_fail_memory() : msi_store_exec(store, wait, x, 2);
    msi_store_rpc_free(x, 2);
    msi_buf_free(&line);
    msi_buf_free(&place);
    return st;
}

mst_status msi_joiner_is_gone(struct mst_store *store, const char *lineage, const struct msi_wait *wait,
                              uint64_t nonce, bool *gone) {
    char key[MSI_KEY_MAX];
    struct msi_store_rpc x = {.req = msi_read_request(msi_key(key, "muster/%s/joiners", lineage))};
    mst_status st = run(store, wait, &x);
    struct msi_str log = st == MST_OK ? msi_store_reply_value(&x) : msi_cstr("");
    *gone = false;
    for (struct msi_joiner_event event; msi_joiner_event_next(&log, &event);)
        *gone |= event.kind == '-' && event.nonce == nonce;
    msi_store_rpc_free(&x, 1);
    return st;
}

mst_status msi_epoch_next(struct mst_store *store, const char *lineage, const struct msi_wait *wait,
                          int64_t *epoch) {
    char key[MSI_KEY_MAX];
    struct msi_store_rpc x = {
        .req = {.op = MSI_OP_ADD, .key = msi_key(key, "muster/%s/epoch", lineage), .number = 1}};
    mst_status st = run(store, wait, &x);
    if (st == MST_OK) *epoch = msi_store_reply_number(&x);
    msi_store_rpc_free(&x, 1);
    return st;
}
