/* choice.c - checks that the ranks of a group have chosen the same backends. See choice.h. */
#include "group/choice.h"
#include "base/error.h"
#include "wire/cursor.h"

#include <stdio.h>
#include <stdlib.h>

const char *msi_rank_show(const mst_group *group, int rank, char *out, size_t size) {
    const struct msi_member *m = &group->world->members.members[rank];
    snprintf(out, size, "rank %d (host %s, pid %d)", rank, m->host_name, m->pid);
    return out;
}

static struct msi_str group_key(const mst_group *group, const char *name, char out[MSI_KEY_MAX]) {
    return msi_key(out, "%s%s/%s", group->world->prefix, group->id, name);
}

void msi_failure_write(const mst_group *group, mst_status status, char out[MSI_NOTE_MAX]) {
    const mst_error_info *info = mst_last_error();
    snprintf(out, MSI_NOTE_MAX, "%d %d %d %.600s\n%.300s", (int)status, group->world->rank, info->culprit,
             info->message, info->remedy);
}

bool msi_called_off(struct msi_str end) {
    return end.n > 4 && !memcmp(end.p, "off ", 4);
}

mst_status msi_failure_read(const mst_group *group, struct msi_str note, const char *did) {
    char text[MSI_NOTE_MAX], process[MSI_RANK_SHOW_MAX];
    int status = 0, rank = -1, culprit = -1, used = 0, size = group->world->size;
    if (msi_called_off(note)) note = msi_str(note.p + 4, note.n - 4);
    if (sscanf(msi_str_copy(note, text, sizeof text), "%d %d %d %n", &status, &rank, &culprit, &used) != 3 ||
        !used)
        return MST_OK;
    if (status <= MST_OK || status >= MST_STATUS_COUNT || rank < 0 || rank >= size) return MST_OK;
    char *remedy = strchr(text + used, '\n');
    if (remedy) *remedy++ = '\0';
    if (culprit < 0 || culprit >= size || culprit == group->world->rank) culprit = rank;
    bool lost = status == MST_ERR_PEER_LOST || status == MST_ERR_STALLED;
    bool named = status == MST_ERR_MISMATCH || (lost && culprit != rank);
    if (named) /* the message names the rank itself */
        msi_fail((mst_status)status, remedy, "%s", text + used);
    else
        msi_fail((mst_status)status, remedy, "%s %s: %s", msi_rank_show(group, rank, process, sizeof process),
                 did, text + used);
    return msi_blame((mst_status)status, culprit);
}

/* Parses the choice of a rank, "RANK NAME"; false if it is malformed. */
static bool read_choice(const mst_group *group, struct msi_str line, int *rank, char name[MSI_BACKENDS_MAX]) {
    char text[MSI_BACKENDS_MAX + 16];
    _Static_assert(MSI_BACKENDS_MAX == 80, "as in the format below");
    return sscanf(msi_str_copy(line, text, sizeof text), "%d %79s", rank, name) == 2 && *rank >= 0 &&
           *rank < group->world->size;
}

mst_status msi_choice_compare(const mst_group *group, const char *wanted, struct msi_str line) {
    char name[MSI_BACKENDS_MAX], us[MSI_RANK_SHOW_MAX], them[MSI_RANK_SHOW_MAX], show[96];
    int rank, me = group->world->rank;
    if (!read_choice(group, line, &rank, name))
        return msi_fail(MST_ERR_PROTOCOL, NULL, "the store holds '%.*s' where a backend should be",
                        MSI_SHOW(line));
    if (!strcmp(name, wanted)) return MST_OK;
    msi_fail(MST_ERR_MISMATCH, MSI_SAME_BACKEND, "%s chose backend '%s' for %s, but %s chose '%s'",
             msi_rank_show(group, me, us, sizeof us), wanted, msi_group_show(group, show, sizeof show),
             msi_rank_show(group, rank, them, sizeof them), name);
    return msi_blame(MST_ERR_MISMATCH, rank);
}

mst_status msi_group_agree(mst_group *group, const struct msi_wait *wait) {
    char keys[2][MSI_KEY_MAX], own[MSI_BACKENDS_MAX + 16], note[MSI_NOTE_MAX];
    if (!group->ranks || group->rank < 0 || group->agreed || group->size == 1) return MST_OK;
    snprintf(own, sizeof own, "%d %s", group->world->rank, group->backends.text);
    struct msi_store_rpc x[] = {{.req = {.op = MSI_OP_COMPARE_SET,
                                         .key = group_key(group, "backend", keys[0]),
                                         .desired = msi_cstr(own)}},
                                {.req = msi_read_request(group_key(group, "differ", keys[1]))}};
    mst_status st = msi_world_exec(group->world, wait, x, 2);
    if (st == MST_OK) st = msi_choice_compare(group, group->backends.text, msi_store_reply_str(&x[0]));
    bool differs = st == MST_ERR_MISMATCH;
    if (st == MST_OK) st = msi_failure_read(group, msi_store_reply_value(&x[1]), "gave up the group");
    msi_store_rpc_free(x, 2);
    group->agreed = st == MST_OK;
    if (!differs) return st;
    msi_failure_write(group, st, note);
    struct msi_store_rpc report = {
        .req = {.op = MSI_OP_COMPARE_SET, .key = msi_cstr(keys[1]), .desired = msi_cstr(note)}};
    msi_world_exec(group->world, wait, &report, 1);
    msi_store_rpc_free(&report, 1);
    return st;
}

/*
 * The number of collectives that the writer of the line had called in that communicator; 0: none. Without
 * memory the largest one, which fits every position.
 */
static uint64_t find_count(struct msi_str line, const char *comm) {
    char *text = malloc(line.n + 1), entry[MSI_KEY_MAX + 4];
    snprintf(entry, sizeof entry, " %s:", comm);
    const char *found = text ? strstr(msi_str_copy(line, text, line.n + 1), entry) : NULL;
    uint64_t count = found ? strtoull(found + strlen(entry), NULL, 10) : text ? 0 : UINT64_MAX;
    free(text);
    return count;
}

/* Another rank has called an exchange: fails if it has not called this rank's operation before. */
static mst_status check_position(const mst_group *group, struct msi_str line, const struct msi_waiting *at) {
    char name[MSI_BACKENDS_MAX], process[MSI_RANK_SHOW_MAX], here[MSI_RANK_SHOW_MAX], show[96];
    int rank;
    if (!at->seq || !read_choice(group, line, &rank, name) || rank == group->world->rank) return MST_OK;
    if (msi_group_rank_of(group, rank) < 0) return MST_OK;
    if (find_count(line, at->comm + strlen(group->world->prefix)) >= at->seq) return MST_OK;
    msi_fail(MST_ERR_MISMATCH, "call mst_set_backend at the same point on all ranks of a group",
             "%s called mst_set_backend with '%s', but %s called %s as operation %llu of %s",
             msi_rank_show(group, rank, process, sizeof process), name,
             msi_rank_show(group, group->world->rank, here, sizeof here), at->name,
             (unsigned long long)at->seq, msi_group_show(group, show, sizeof show));
    return msi_blame(MST_ERR_MISMATCH, rank);
}

/* Another rank waits in a monitored barrier through the store, which this rank has not called. */
static mst_status check_monitored(const mst_group *group, struct msi_str note, const struct msi_waiting *at) {
    char text[400], process[MSI_RANK_SHOW_MAX], ours[200];
    unsigned long long seq, barriers;
    int rank, used = 0;
    if (sscanf(msi_str_copy(note, text, sizeof text), "%llu %llu %d %n", &seq, &barriers, &rank, &used) !=
            3 ||
        !used)
        return MST_OK;
    const struct msi_comm *host = atomic_load_explicit(&group->comm, memory_order_acquire); /* its maker's */
    if (!host || strcmp(at->comm, msi_comm_key(host)) != 0)
        return MST_OK; /* the barrier is in the place of its next call */
    if (seq > at->seq || barriers <= group->barriers || msi_group_rank_of(group, rank) < 0) return MST_OK;
    msi_fail(MST_ERR_MISMATCH, "all ranks of a group must make the same calls in the same order",
             "operation %llu of the group is %s on this rank, but %s called %s before it",
             (unsigned long long)at->seq, msi_call_signature_show(&at->signature, ours, sizeof ours),
             msi_rank_show(group, rank, process, sizeof process), text + used);
    return msi_blame(MST_ERR_MISMATCH, rank);
}

void msi_exchange_key(const mst_group *group, int number, char out[MSI_KEY_MAX]) {
    msi_key(out, "%s%s/exchange.%d", group->world->prefix, group->id, number);
}

/* Reports to ranks that wait in the exchange that this rank does not call it. */
static void call_off(const mst_group *group, const char *exchange) {
    char key[MSI_KEY_MAX + 8], note[MSI_NOTE_MAX + 4] = "off ";
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    snprintf(key, sizeof key, "%s/end", exchange);
    msi_failure_write(group, MST_ERR_MISMATCH, note + 4);
    struct msi_store_rpc x = {
        .req = {.op = MSI_OP_COMPARE_SET, .key = msi_cstr(key), .desired = msi_cstr(note)}};
    msi_world_exec(group->world, &wait, &x, 1);
    msi_store_rpc_free(&x, 1);
}

mst_status msi_group_check_choice(mst_group *group, const struct msi_waiting *at) {
    enum { DIFFER, MONITORED, OWN, WORLD, COUNT };
    char keys[COUNT][MSI_KEY_MAX];
    mst_group *all = group->world->all;
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    msi_exchange_key(group, group->exchanges + 1, keys[OWN]);
    msi_exchange_key(all, all->exchanges + 1, keys[WORLD]);
    struct msi_store_rpc x[COUNT] = {
        {.req = msi_read_request(group_key(group, "differ", keys[DIFFER]))},
        {.req = msi_read_request(group_key(group, "monitored", keys[MONITORED]))},
        {.req = msi_read_request(msi_cstr(keys[OWN]))},
        {.req = msi_read_request(msi_cstr(keys[WORLD]))}};
    bool follows = group != all && !group->own_backends;
    mst_status st = MST_OK;
    if (msi_world_exec(group->world, &wait, x, follows ? COUNT : WORLD) == MST_OK) {
        st = msi_failure_read(group, msi_store_reply_value(&x[DIFFER]), "gave up the group");
        if (st == MST_OK && at->seq) st = check_monitored(group, msi_store_reply_value(&x[MONITORED]), at);
        for (int i = OWN; i <= WORLD && st == MST_OK; i++) {
            if (i == WORLD && !follows) break;
            st = check_position(group, msi_store_reply_value(&x[i]), at);
            if (st != MST_OK) call_off(i == OWN ? group : all, keys[i]);
        }
    }
    msi_store_rpc_free(x, COUNT);
    return st;
}
