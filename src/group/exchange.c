/* exchange.c - mst_set_backend: replaces the backends of a group, or of a world and the groups that follow
 * it. Keys: choice.h. */
#include "base/error.h"
#include "base/rank_list.h"
#include "group/choice.h"
#include "wire/cursor.h"

#include <stdio.h>
#include <stdlib.h>

enum { LOOK_MS = 200 };

/* One call of mst_set_backend. */
struct exchange {
    mst_group *group;
    const struct msi_backends *wanted;
    mst_group **groups; /* the group, and if it is a world all groups that follow it */
    int n;
    char key[MSI_KEY_MAX]; /* exchange.N */
    struct msi_buf came;   /* exchange.N/came, at the end */
};

static mst_status check_idle(const mst_group *group) {
    char show[96];
    for (int i = 0; i < group->n_comms; i++)
        if (group->comms[i].comm && !msi_comm_idle_now(group->comms[i].comm))
            return msi_fail(MST_ERR_STATE, "wait for all works of the group first",
                            "operations of %s are under way", msi_group_show(group, show, sizeof show));
    return MST_OK;
}

/* Communicators are queried without the world's lock: elsewhere their lock is taken first. */
static mst_status gather_groups(struct exchange *e) {
    struct msi_world *world = e->group->world;
    pthread_mutex_lock(&world->lock);
    int n = 0;
    for (struct msi_list *at = world->groups.next; at != &world->groups; at = at->next) n++;
    e->groups = malloc((size_t)(n + 1) * sizeof(mst_group *));
    for (struct msi_list *at = world->groups.next; e->groups && at != &world->groups; at = at->next) {
        mst_group *group = msi_container(at, mst_group, node);
        bool follows = e->group == world->all && !group->own_backends;
        if (group == e->group || follows) e->groups[e->n++] = group;
    }
    pthread_mutex_unlock(&world->lock);
    mst_status st = e->groups ? MST_OK : msi_fail_memory();
    for (int i = 0; i < e->n && st == MST_OK; i++) st = check_idle(e->groups[i]);
    return st;
}

/* The line with the backends that this rank wants, and its number of operations in each group. */
static void write_choice(const struct exchange *e, struct msi_buf *line) {
    size_t prefix = strlen(e->group->world->prefix);
    msi_buf_add_format(line, "%d %s", e->group->world->rank, e->wanted->text);
    for (int i = 0; i < e->n; i++)
        for (int k = 0; k < e->groups[i]->n_comms; k++) {
            const struct msi_comm *comm = e->groups[i]->comms[k].comm;
            uint64_t count = comm ? msi_comm_count(comm) : 0;
            if (count)
                msi_buf_add_format(line, " %s:%llu", msi_comm_key(comm) + prefix, (unsigned long long)count);
        }
}

static void write_failed(const struct exchange *e, struct msi_buf *came) {
    msi_buf_add_format(came, "%d", e->group->world->rank);
    for (int i = 0; i < e->n; i++) msi_group_list_failed(e->groups[i], came);
    msi_buf_add(came, ";", 1);
}

/* Publishes what this rank wants, and reads what the first rank wanted. *off: the exchange has ended; this
 * call belongs to the next one. */
static mst_status arrive(const struct exchange *e, const struct msi_wait *wait, bool *off) {
    char key[MSI_KEY_MAX + 8], end[MSI_KEY_MAX + 8];
    struct msi_buf line = {0}, came = {0};
    write_choice(e, &line);
    write_failed(e, &came);
    snprintf(key, sizeof key, "%s/came", e->key);
    snprintf(end, sizeof end, "%s/end", e->key);
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_COMPARE_SET, .key = msi_cstr(e->key), .desired = msi_buf_str(&line)}},
        {.req = {.op = MSI_OP_APPEND, .key = msi_cstr(key), .value = msi_buf_str(&came)}},
        {.req = msi_read_request(msi_cstr(end))}};
    mst_status st =
        line.failed || came.failed ? msi_fail_memory() : msi_world_exec(e->group->world, wait, x, 3);
    *off = st == MST_OK && msi_called_off(msi_store_reply_str(&x[2]));
    if (st == MST_OK && !*off) st = msi_choice_compare(e->group, e->wanted->text, msi_store_reply_str(&x[0]));
    msi_store_rpc_free(x, 3);
    msi_buf_free(&line);
    msi_buf_free(&came);
    return st;
}

/* Is that rank in the list of those that have arrived? */
static bool has_come(const char *came, int rank) {
    for (const char *at = came; *at; at += strcspn(at, ";"), at += *at == ';')
        if (atoi(at) == rank) return true;
    return false;
}

/* Lists the ranks that have not arrived. */
static mst_status find_late(const struct exchange *e, struct msi_rank_list *late) {
    const mst_group *group = e->group;
    char key[MSI_KEY_MAX + 8], who[MSI_RANK_SHOW_MAX];
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    snprintf(key, sizeof key, "%s/came", e->key);
    struct msi_store_rpc x = {.req = msi_read_request(msi_cstr(key))};
    mst_status st = msi_world_exec(group->world, &wait, &x, 1);
    struct msi_str came = st == MST_OK ? msi_store_reply_value(&x) : msi_cstr("");
    char *text = malloc(came.n + 1);
    msi_rank_list_init(late, MSI_RANKS_LISTED);
    for (int i = 0; text && i < group->size && st == MST_OK; i++) {
        int rank = msi_group_global_rank(group, i);
        if (has_come(msi_str_copy(came, text, came.n + 1), rank)) continue;
        msi_rank_list_add(late, rank, msi_rank_show(group, rank, who, sizeof who));
    }
    msi_store_rpc_free(&x, 1);
    free(text);
    return st;
}

/* Fails at the deadline, and names the ranks that have not arrived. */
static mst_status say_late(const struct exchange *e) {
    const mst_group *group = e->group;
    struct msi_rank_list late;
    char show[96];
    mst_status st = find_late(e, &late);
    if (st != MST_OK) return st;
    st =
        msi_fail(MST_ERR_STALLED, "find out where those ranks are, or raise .timeout_ms",
                 "%d of %d ranks of %s reached mst_set_backend in time; missing: %s", group->size - late.n,
                 group->size, msi_group_show(group, show, sizeof show), late.n ? late.text : "none any more");
    return msi_blame_missing(st, &late.ranks);
}

static void write_slow(const struct exchange *e, struct msi_slow *slow, int64_t deadline) {
    struct msi_rank_list late;
    char show[96];
    if (find_late(e, &late) == MST_OK && late.n)
        msi_slow_write(slow, deadline, NULL, msi_group_show(e->group, show, sizeof show), late.text);
}

/* Has another rank ended the exchange? */
static mst_status look_at_end(const struct exchange *e) {
    char key[MSI_KEY_MAX + 8];
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    snprintf(key, sizeof key, "%s/end", e->key);
    struct msi_store_rpc x = {.req = msi_read_request(msi_cstr(key))};
    mst_status st = msi_world_exec(e->group->world, &wait, &x, 1);
    if (st == MST_OK) st = msi_failure_read(e->group, msi_store_reply_value(&x), "gave up mst_set_backend");
    msi_store_rpc_free(&x, 1);
    return st;
}

static mst_status wait_for_all(const struct exchange *e, const struct msi_wait *wait) {
    char key[MSI_KEY_MAX + 8];
    struct msi_slow slow = msi_slow_begin(e->group->world->slow_s, msi_now());
    snprintf(key, sizeof key, "%s/all", e->key);
    for (int64_t number = e->group->size;; number = -e->group->size) {
        int64_t moment = msi_deadline(LOOK_MS);
        struct msi_wait some = {moment < wait->deadline ? moment : wait->deadline, wait->cancel};
        struct msi_store_rpc x = {.req = {.op = MSI_OP_BARRIER, .key = msi_cstr(key), .number = number}};
        mst_status st = msi_group_exec(e->group, &some, &x, 1);
        msi_store_rpc_free(&x, 1);
        if (st == MST_OK || st == MST_ERR_STORE_LOST) return st;
        mst_status ended = look_at_end(e); /* the rank that gave up may have left since */
        if (ended != MST_OK) return ended;
        if (st == MST_ERR_PEER_LOST) return msi_group_check(e->group, false);
        if (st != MST_ERR_TIMEOUT) return st;
        if (msi_now() >= wait->deadline) return say_late(e);
        if (msi_slow_is_due(&slow, wait->deadline)) write_slow(e, &slow, wait->deadline);
    }
}

/* Publishes how the exchange ended on this rank. If another rank has published its end before, that end
 * counts for all ranks. */
static mst_status conclude(struct exchange *e, mst_status st) {
    char key[MSI_KEY_MAX + 8], came[MSI_KEY_MAX + 8], note[MSI_NOTE_MAX] = "ok";
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    if (st == MST_ERR_STORE_LOST || st == MST_ERR_PEER_LOST) return st; /* the other ranks see that too */
    if (st != MST_OK) msi_failure_write(e->group, st, note);
    snprintf(key, sizeof key, "%s/end", e->key);
    snprintf(came, sizeof came, "%s/came", e->key);
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_COMPARE_SET, .key = msi_cstr(key), .desired = msi_cstr(note)}},
        {.req = msi_read_request(msi_cstr(came))}};
    mst_status sent = msi_world_exec(e->group->world, &wait, x, 2);
    struct msi_str end = sent == MST_OK ? msi_store_reply_str(&x[0]) : msi_cstr("");
    struct msi_str all = sent == MST_OK ? msi_store_reply_value(&x[1]) : msi_cstr("");
    msi_buf_add(&e->came, all.p, all.n);
    if (sent != MST_OK)
        st = sent;
    else if (msi_str_equal(end, msi_cstr("ok")))
        st = MST_OK;
    else if (!msi_str_equal(end, msi_cstr(note)))
        st = msi_failure_read(e->group, end, "gave up mst_set_backend");
    msi_store_rpc_free(x, 2);
    return st;
}

/* All ranks have arrived at this exchange: deletes the keys of the one before. */
static void forget_last(const mst_group *group) {
    static const char *const parts[] = {"", "/came", "/all", "/end"};
    enum { PARTS = sizeof parts / sizeof *parts };
    char keys[PARTS][MSI_KEY_MAX + 8], last[MSI_KEY_MAX];
    struct msi_store_rpc x[PARTS] = {0};
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    if (group->rank != 0 || group->exchanges < 2) return;
    msi_exchange_key(group, group->exchanges - 1, last);
    for (int i = 0; i < PARTS; i++) {
        snprintf(keys[i], sizeof keys[i], "%s%s", last, parts[i]);
        x[i].req = (struct msi_store_req){.op = MSI_OP_DELETE_KEY, .key = msi_cstr(keys[i])};
    }
    msi_world_exec(group->world, &wait, x, PARTS);
    msi_store_rpc_free(x, PARTS);
}

static void set_backends(mst_group *group, const struct msi_backends *backends) {
    group->backends = *backends;
    /* No operation is under way, and no other thread may begin one. */
    atomic_store_explicit(&group->comm, NULL, memory_order_relaxed);
    atomic_store_explicit(&group->device, NULL, memory_order_relaxed);
}

/* Has that backend failed in that group on some rank? */
static bool is_spent(const struct exchange *e, const mst_group *group, const mst_backend *table) {
    char entry[160];
    size_t n = (size_t)snprintf(entry, sizeof entry, " %s/%s", group->id, table->name);
    const char *at = (const char *)e->came.data, *end = at + e->came.len;
    while (at && (at = memmem(at, (size_t)(end - at), entry, n)) && at + n < end) {
        if (at[n] == ' ' || at[n] == ';') return true;
        at += n;
    }
    return false;
}

/* A backend that has failed on one rank is recreated on all. */
static mst_status take_effect(const struct exchange *e, mst_group *group) {
    char generation[16];
    mst_status st = MST_OK;
    snprintf(generation, sizeof generation, "%s%d", e->group->ranks ? "own" : "world", e->group->exchanges);
    set_backends(group, e->wanted);
    for (int m = 0; m < MST_MEMORY_COUNT && st == MST_OK; m++) {
        const mst_backend *table = e->wanted->of[m];
        bool again = m > 0 && table == e->wanted->of[m - 1];
        if (table && !again && is_spent(e, group, table)) st = msi_group_renew(group, table, generation);
    }
    return st;
}

static mst_status agree_on(struct exchange *e, const struct msi_wait *wait) {
    mst_status st = e->wanted ? MST_OK : mst_last_error()->status;
    if (e->group->size == 1) {
        msi_exchange_key(e->group, ++e->group->exchanges, e->key);
        write_failed(e, &e->came);
        return st;
    }
    for (bool off = true; off;) {
        msi_exchange_key(e->group, ++e->group->exchanges, e->key);
        off = false;
        if (st == MST_OK) st = arrive(e, wait, &off);
    }
    if (st == MST_OK) st = wait_for_all(e, wait);
    st = conclude(e, st);
    if (st == MST_OK) forget_last(e->group);
    return st;
}

mst_status msi_group_exchange(mst_group *group, const struct msi_backends *wanted,
                              const struct msi_wait *wait) {
    struct exchange e = {.group = group, .wanted = wanted};
    mst_status st = wanted ? gather_groups(&e) : MST_OK;
    if (st == MST_OK) st = agree_on(&e, wait);
    for (int i = 0; i < e.n && st == MST_OK; i++) st = take_effect(&e, e.groups[i]);
    if (st == MST_OK && group->ranks) group->own_backends = true;
    msi_buf_free(&e.came);
    free(e.groups);
    return st;
}

mst_status msi_world_return(struct msi_world *world, const struct msi_backends *before) {
    struct exchange e = {.group = world->all, .wanted = before};
    mst_status st = gather_groups(&e);
    for (int i = 0; i < e.n && st == MST_OK; i++) set_backends(e.groups[i], before);
    free(e.groups);
    return st;
}
