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

static mst_status append(struct mst_store *store, const char *lineage, const struct msi_wait *wait,
                         const char *line) {
    char key[MSI_KEY_MAX];
    struct msi_store_rpc x = {.req = {.op = MSI_OP_APPEND,
                                      .key = msi_key(key, "muster/%s/joiners", lineage),
                                      .value = msi_cstr(line)}};
    mst_status st = run(store, wait, &x);
    msi_store_rpc_free(&x, 1);
    return st;
}

/* The store tells the members if this process ends before it is admitted. */
static mst_status announce(struct mst_store *store, const char *lineage, const struct msi_wait *wait,
                           uint64_t nonce) {
    char key[MSI_KEY_MAX], host[MSI_HOST_MAX], line[MSI_HOST_MAX + 64];
    snprintf(line, sizeof line, "- %016" PRIx64 "\n", nonce);
    struct msi_store_rpc x = {.req = {.op = MSI_OP_ON_DISCONNECT,
                                      .key = msi_key(key, "muster/%s/joiners", lineage),
                                      .value = msi_cstr(line)}};
    mst_status st = run(store, wait, &x);
    msi_store_rpc_free(&x, 1);
    msi_host_name(host);
    snprintf(line, sizeof line, "+ %016" PRIx64 " host %s, pid %d\n", nonce, host, (int)getpid());
    return st == MST_OK ? append(store, lineage, wait, line) : st;
}

/* This process does not wait any more: takes it off the list. */
static void withdraw(struct mst_store *store, const char *lineage, uint64_t nonce) {
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    struct msi_saved_error error;
    struct msi_store_rpc x = {.req = {.op = MSI_OP_ON_DISCONNECT}};
    char line[40];
    msi_error_save(&error, MST_OK);
    snprintf(line, sizeof line, "- %016" PRIx64 "\n", nonce);
    append(store, lineage, &wait, line);
    run(store, &wait, &x);
    msi_store_rpc_free(&x, 1);
    msi_error_restore(&error);
}

static mst_status read_place(struct msi_str text, struct msi_admission *given) {
    char copy[96];
    if (sscanf(msi_str_copy(text, copy, sizeof copy), "%" SCNd64 " %d %d %d", &given->epoch, &given->rank,
               &given->size, &given->first_old) == 4 &&
        given->rank >= 0 && given->rank < given->size)
        return MST_OK;
    return msi_fail(MST_ERR_PROTOCOL, NULL, "the store holds '%.60s' where the place of a new rank should be",
                    copy);
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
    if (st != MST_OK) withdraw(store, lineage, nonce);
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

/* Reads a line of the log; returns its kind, or 0 if it is malformed. */
static char read_entry(struct msi_str line, uint64_t *nonce) {
    char text[32], kind;
    return sscanf(msi_str_copy(line, text, sizeof text), "%c %16" SCNx64, &kind, nonce) == 2 ? kind : 0;
}

static bool read_log(struct msi_str log, struct msi_joiners *joiners) {
    joiners->seen = (int64_t)log.n;
    joiners->n = 0;
    joiners->nonces = malloc((log.n / 19 + 1) * sizeof *joiners->nonces); /* a line has 19 bytes or more */
    if (!joiners->nonces) return false;
    for (struct msi_str line; msi_str_line(&log, &line);) {
        uint64_t nonce;
        char kind = read_entry(line, &nonce);
        if (!kind) continue;
        drop(joiners, nonce);
        if (kind == '+') joiners->nonces[joiners->n++] = nonce;
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
    char keys[2][MSI_KEY_MAX], line[40], place[96];
    snprintf(line, sizeof line, "= %016" PRIx64 "\n", nonce);
    snprintf(place, sizeof place, "%" PRId64 " %d %d %d", given->epoch, given->rank, given->size,
             given->first_old);
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_APPEND,
                 .key = msi_key(keys[0], "muster/%s/joiners", lineage),
                 .value = msi_cstr(line)}},
        {.req = {.op = MSI_OP_SET,
                 .key = msi_key(keys[1], "muster/%s/admit/%016" PRIx64, lineage, nonce),
                 .value = msi_cstr(place)}},
    };
    mst_status st = msi_store_exec(store, wait, x, 2);
    msi_store_rpc_free(x, 2);
    return st;
}

mst_status msi_joiner_is_gone(struct mst_store *store, const char *lineage, const struct msi_wait *wait,
                              uint64_t nonce, bool *gone) {
    char key[MSI_KEY_MAX];
    struct msi_store_rpc x = {.req = msi_read_request(msi_key(key, "muster/%s/joiners", lineage))};
    mst_status st = run(store, wait, &x);
    struct msi_str log = st == MST_OK ? msi_store_reply_value(&x) : msi_cstr("");
    uint64_t found;
    *gone = false;
    for (struct msi_str line; msi_str_line(&log, &line);)
        if (read_entry(line, &found) == '-' && found == nonce) *gone = true;
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
