/*
 * exchange.c - which backends run a group: all its ranks must choose the same. See world.h.
 *
 * Keys, under the group's:
 *   backend            what the first rank chose, "RANK NAME". Those say it who give a new group a backend of its own, and everybody
 *                      before the first operation. Ranks of a world have compared theirs when they joined.
 *   differ             how a rank found out that it chose another: the first of them look there while they wait for it
 *   exchange.N         what the first rank to come to the N-th exchange wants, "RANK NAME", and behind that " KEY:SEQ" for each comm
 *                      that it has used: how many collectives it had called by then
 *   exchange.N/came    who has come, "RANK;"
 *   exchange.N/all     the barrier of their arrival
 *   exchange.N/end     how it ended: "ok", or why it did not come about. Whoever writes it first decides for all. "off" before that:
 *                      one that had not come called it off; it does not count for those who come later.
 *
 * A failure is written as "STATUS RANK CULPRIT what\nremedy".
 */
#include "base/error.h"
#include "bootstrap/report.h"
#include "group/world.h"
#include "wire/cursor.h"

#include <stdio.h>
#include <stdlib.h>

enum { LOOK_MS = 200, NOTE_MAX = 1000, LISTED_MOST = 8 };

/* One exchange of a group's backends. */
struct exchange {
    mst_group *group;
    const struct msi_backends *wanted;
    mst_group **groups; /* those that it is for: the group, and if that is a world all that follow it */
    int n;
    char key[MSI_KEY_MAX]; /* exchange.N */
};

static struct msi_str reply_str(const struct msi_exchange *x) {
    struct msi_reader r = msi_reader(x->reply.data, x->reply.len);
    return msi_read_str(&r);
}

/* Copies what fits. */
static const char *copy(struct msi_str text, char *out, size_t size) {
    size_t n = text.n < size ? text.n : size - 1;
    if (n) memcpy(out, text.p, n);
    out[n] = '\0';
    return out;
}

static const char *show_rank(const mst_group *group, int rank, char *out, size_t size) {
    const struct msi_member *m = &group->world->roster.members[rank];
    snprintf(out, size, "rank %d (host %s, pid %d)", rank, m->host_name, m->pid);
    return out;
}

static struct msi_str group_key(const mst_group *group, const char *name, char out[MSI_KEY_MAX]) {
    return msi_key(out, "%s%s/%s", group->world->prefix, group->id, name);
}

/* The thread's last failure, for others to read. */
static void write_failure(const mst_group *group, mst_status status, char out[NOTE_MAX]) {
    const mst_error_info *info = mst_last_error();
    snprintf(out, NOTE_MAX, "%d %d %d %.600s\n%.300s", (int)status, group->world->rank, info->culprit,
             info->message, info->remedy);
}

static bool is_called_off(struct msi_str end) {
    return end.n > 4 && !memcmp(end.p, "off ", 4);
}

/* Fails as another rank has written; MST_OK: there is nothing. */
static mst_status read_failure(const mst_group *group, struct msi_str note) {
    char text[NOTE_MAX], who[MSI_WHO_MAX + 32];
    int status = 0, rank = -1, culprit = -1, used = 0, size = group->world->size;
    if (is_called_off(note)) note = msi_str(note.p + 4, note.n - 4);
    if (sscanf(copy(note, text, sizeof text), "%d %d %d %n", &status, &rank, &culprit, &used) != 3 || !used)
        return MST_OK;
    if (status <= MST_OK || status >= MST_STATUS_COUNT || rank < 0 || rank >= size) return MST_OK;
    char *remedy = strchr(text + used, '\n');
    if (remedy) *remedy++ = '\0';
    if (culprit < 0 || culprit >= size || culprit == group->world->rank) culprit = rank;
    if (status == MST_ERR_MISMATCH) /* says by itself whom it concerns */
        msi_fail((mst_status)status, remedy, "%s", text + used);
    else
        msi_fail((mst_status)status, remedy, "%s gave up mst_set_backend: %s",
                 show_rank(group, rank, who, sizeof who), text + used);
    return msi_blame((mst_status)status, culprit);
}

/* What a rank chose, "RANK NAME". False: that is none. */
static bool read_choice(const mst_group *group, struct msi_str line, int *rank, char name[MSI_BACKENDS_MAX]) {
    char text[MSI_BACKENDS_MAX + 16];
    _Static_assert(MSI_BACKENDS_MAX == 80, "as in the format below");
    return sscanf(copy(line, text, sizeof text), "%d %79s", rank, name) == 2 && *rank >= 0 &&
           *rank < group->world->size;
}

/* Compares what this rank wants with what the first chose. */
static mst_status compare(const mst_group *group, const char *wanted, struct msi_str line) {
    char name[MSI_BACKENDS_MAX], us[MSI_WHO_MAX + 32], them[MSI_WHO_MAX + 32], show[96];
    int rank, me = group->world->rank;
    if (!read_choice(group, line, &rank, name))
        return msi_fail(MST_ERR_PROTOCOL, NULL, "the store holds '%.*s' where a backend should be",
                        MSI_SHOW(line));
    if (!strcmp(name, wanted)) return MST_OK;
    msi_fail(MST_ERR_MISMATCH, MSI_SAME_BACKEND, "%s chose backend '%s' for %s, but %s chose '%s'",
             show_rank(group, me, us, sizeof us), wanted, msi_group_show(group, show, sizeof show),
             show_rank(group, rank, them, sizeof them), name);
    return msi_blame(MST_ERR_MISMATCH, rank);
}

mst_status msi_group_agree(mst_group *group, const struct msi_wait *wait) {
    char keys[2][MSI_KEY_MAX], own[MSI_BACKENDS_MAX + 16], note[NOTE_MAX];
    if (!group->ranks || group->rank < 0 || group->agreed || group->size == 1) return MST_OK;
    snprintf(own, sizeof own, "%d %s", group->world->rank, group->backends.text);
    struct msi_exchange x[] = {{.req = {.op = MSI_OP_COMPARE_SET,
                                        .key = group_key(group, "backend", keys[0]),
                                        .desired = msi_cstr(own)}},
                               {.req = msi_read_request(group_key(group, "differ", keys[1]))}};
    mst_status st = msi_world_exec(group->world, wait, x, 2);
    if (st == MST_OK) st = compare(group, group->backends.text, reply_str(&x[0]));
    bool differs = st == MST_ERR_MISMATCH;
    if (st == MST_OK) st = read_failure(group, msi_value_or_none(reply_str(&x[1])));
    msi_exchange_free(x, 2);
    group->agreed = st == MST_OK;
    if (!differs) return st;
    write_failure(group, st, note);
    struct msi_exchange tell = {
        .req = {.op = MSI_OP_COMPARE_SET, .key = msi_cstr(keys[1]), .desired = msi_cstr(note)}};
    msi_world_exec(group->world, wait, &tell, 1);
    msi_exchange_free(&tell, 1);
    return st;
}

/* How many collectives whoever wrote the line had called in that comm; 0: it had not used it. */
static uint64_t find_count(struct msi_str line, const char *comm) {
    char *text = malloc(line.n + 1), entry[MSI_KEY_MAX + 4];
    snprintf(entry, sizeof entry, " %s:", comm);
    const char *found = text ? strstr(copy(line, text, line.n + 1), entry) : NULL;
    uint64_t count = found ? strtoull(found + strlen(entry), NULL, 10) : 0;
    free(text);
    return count;
}

/* Another rank has come to an exchange: will it ever come to that operation? */
static mst_status compare_places(const mst_group *group, struct msi_str line, const struct msi_waiting *at) {
    char name[MSI_BACKENDS_MAX], who[MSI_WHO_MAX + 32], here[MSI_WHO_MAX + 32], show[96];
    int rank;
    if (!at->seq || !read_choice(group, line, &rank, name) || rank == group->world->rank) return MST_OK;
    if (msi_group_rank_of(group, rank) < 0) return MST_OK;
    if (find_count(line, at->comm + strlen(group->world->prefix)) >= at->seq) return MST_OK;
    msi_fail(MST_ERR_MISMATCH, "let all ranks of a group call mst_set_backend at the same point",
             "%s called mst_set_backend to '%s' where %s called %s, operation %llu of %s",
             show_rank(group, rank, who, sizeof who), name,
             show_rank(group, group->world->rank, here, sizeof here), at->name, (unsigned long long)at->seq,
             msi_group_show(group, show, sizeof show));
    return msi_blame(MST_ERR_MISMATCH, rank);
}

static void name_exchange(const mst_group *group, int number, char out[MSI_KEY_MAX]) {
    msi_key(out, "%s%s/exchange.%d", group->world->prefix, group->id, number);
}

/* Whoever waits in the exchange hears that this rank does not come. */
static void call_off(const mst_group *group, const char *exchange) {
    char key[MSI_KEY_MAX + 8], note[NOTE_MAX + 4] = "off ";
    struct msi_wait wait = {msi_deadline(MSI_LAST_WORDS_MS), NULL};
    snprintf(key, sizeof key, "%s/end", exchange);
    write_failure(group, MST_ERR_MISMATCH, note + 4);
    struct msi_exchange x = {
        .req = {.op = MSI_OP_COMPARE_SET, .key = msi_cstr(key), .desired = msi_cstr(note)}};
    msi_world_exec(group->world, &wait, &x, 1);
    msi_exchange_free(&x, 1);
}

mst_status msi_group_look(mst_group *group, const struct msi_waiting *at) {
    enum { DIFFER, OWN, WORLD, COUNT };
    char keys[COUNT][MSI_KEY_MAX];
    mst_group *all = group->world->all;
    struct msi_wait wait = {msi_deadline(MSI_LAST_WORDS_MS), NULL};
    name_exchange(group, group->exchanges + 1, keys[OWN]);
    name_exchange(all, all->exchanges + 1, keys[WORLD]);
    struct msi_exchange x[COUNT] = {{.req = msi_read_request(group_key(group, "differ", keys[DIFFER]))},
                                    {.req = msi_read_request(msi_cstr(keys[OWN]))},
                                    {.req = msi_read_request(msi_cstr(keys[WORLD]))}};
    bool follows = group != all && !group->own_backends;
    mst_status st = MST_OK;
    if (msi_world_exec(group->world, &wait, x, follows ? COUNT : WORLD) == MST_OK) {
        st = read_failure(group, msi_value_or_none(reply_str(&x[DIFFER])));
        for (int i = OWN; i <= WORLD && st == MST_OK; i++) {
            if (i == WORLD && !follows) break;
            st = compare_places(group, msi_value_or_none(reply_str(&x[i])), at);
            if (st != MST_OK) call_off(i == OWN ? group : all, keys[i]);
        }
    }
    msi_exchange_free(x, COUNT);
    return st;
}

static mst_status check_idle(const mst_group *group) {
    char show[96];
    for (int i = 0; i < group->n_comms; i++)
        if (!msi_comm_idle_now(group->comms[i].comm))
            return msi_fail(MST_ERR_STATE, "wait for all works of the group first",
                            "operations of %s are under way", msi_group_show(group, show, sizeof show));
    return MST_OK;
}

/* Comms are asked without the world's lock, which is taken under theirs. */
static mst_status gather_groups(struct exchange *e) {
    struct msi_world *world = e->group->world;
    pthread_mutex_lock(&world->lock);
    int n = 0;
    for (struct msi_list *at = world->groups.next; at != &world->groups; at = at->next) n++;
    e->groups = malloc((size_t)n * sizeof(mst_group *));
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

/* The line that says what this rank wants, and where it is. */
static void write_choice(const struct exchange *e, struct msi_buf *line) {
    size_t prefix = strlen(e->group->world->prefix);
    msi_buf_add_format(line, "%d %s", e->group->world->rank, e->wanted->text);
    for (int i = 0; i < e->n; i++)
        for (int k = 0; k < e->groups[i]->n_comms; k++) {
            const struct msi_comm *comm = e->groups[i]->comms[k].comm;
            uint64_t count = msi_comm_count(comm);
            if (count)
                msi_buf_add_format(line, " %s:%llu", msi_comm_key(comm) + prefix, (unsigned long long)count);
        }
}

/* Says what this rank wants, and hears what the first wanted. *off: nobody waits for it, the next one is meant. */
static mst_status arrive(const struct exchange *e, const struct msi_wait *wait, bool *off) {
    char key[MSI_KEY_MAX + 8], end[MSI_KEY_MAX + 8];
    struct msi_buf line = {0}, came = {0};
    write_choice(e, &line);
    msi_buf_add_format(&came, "%d;", e->group->world->rank);
    snprintf(key, sizeof key, "%s/came", e->key);
    snprintf(end, sizeof end, "%s/end", e->key);
    struct msi_exchange x[] = {
        {.req = {.op = MSI_OP_COMPARE_SET, .key = msi_cstr(e->key), .desired = msi_buf_str(&line)}},
        {.req = {.op = MSI_OP_APPEND, .key = msi_cstr(key), .value = msi_buf_str(&came)}},
        {.req = msi_read_request(msi_cstr(end))}};
    mst_status st =
        line.failed || came.failed ? msi_fail_memory() : msi_world_exec(e->group->world, wait, x, 3);
    *off = st == MST_OK && is_called_off(reply_str(&x[2]));
    if (st == MST_OK && !*off) st = compare(e->group, e->wanted->text, reply_str(&x[0]));
    msi_exchange_free(x, 3);
    msi_buf_free(&line);
    msi_buf_free(&came);
    return st;
}

/* Has that rank come, by the list of those who have? */
static bool has_come(const char *came, int rank) {
    for (const char *at = came; *at; at += strcspn(at, ";"), at += *at == ';')
        if (atoi(at) == rank) return true;
    return false;
}

/* Who has not come at the deadline? */
static mst_status say_late(const struct exchange *e) {
    const mst_group *group = e->group;
    char key[MSI_KEY_MAX + 8], list[600] = "", who[MSI_WHO_MAX + 32], show[96];
    struct msi_wait wait = {msi_deadline(MSI_LAST_WORDS_MS), NULL};
    snprintf(key, sizeof key, "%s/came", e->key);
    struct msi_exchange x = {.req = msi_read_request(msi_cstr(key))};
    mst_status st = msi_world_exec(group->world, &wait, &x, 1);
    struct msi_str came = st == MST_OK ? msi_value_or_none(reply_str(&x)) : msi_cstr("");
    char *text = malloc(came.n + 1);
    size_t used = 0;
    int late = 0, first = -1;
    for (int i = 0; text && i < group->size && st == MST_OK; i++) {
        int rank = msi_group_global_rank(group, i);
        if (has_come(copy(came, text, came.n + 1), rank)) continue;
        if (first < 0) first = rank;
        if (late++ < LISTED_MOST && used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", late > 1 ? ", " : "",
                                     show_rank(group, rank, who, sizeof who));
    }
    msi_exchange_free(&x, 1);
    free(text);
    if (st != MST_OK) return st;
    st = msi_fail(MST_ERR_STALLED, "see where those ranks are; a longer wait is .timeout_ms",
                  "%d of %d ranks of %s came to mst_set_backend in time; missing: %s%s", group->size - late,
                  group->size, msi_group_show(group, show, sizeof show), late ? list : "nobody any more",
                  late > LISTED_MOST ? " and others" : "");
    return msi_blame(st, first);
}

/* Has somebody ended it? */
static mst_status look_at_end(const struct exchange *e) {
    char key[MSI_KEY_MAX + 8];
    struct msi_wait wait = {msi_deadline(MSI_LAST_WORDS_MS), NULL};
    snprintf(key, sizeof key, "%s/end", e->key);
    struct msi_exchange x = {.req = msi_read_request(msi_cstr(key))};
    mst_status st = msi_world_exec(e->group->world, &wait, &x, 1);
    if (st == MST_OK) st = read_failure(e->group, msi_value_or_none(reply_str(&x)));
    msi_exchange_free(&x, 1);
    return st;
}

static mst_status wait_for_all(const struct exchange *e, const struct msi_wait *wait) {
    char key[MSI_KEY_MAX + 8];
    snprintf(key, sizeof key, "%s/all", e->key);
    for (int64_t number = e->group->size;; number = -e->group->size) {
        int64_t moment = msi_deadline(LOOK_MS);
        struct msi_wait some = {moment < wait->deadline ? moment : wait->deadline, wait->cancel};
        struct msi_exchange x = {.req = {.op = MSI_OP_BARRIER, .key = msi_cstr(key), .number = number}};
        mst_status st = msi_group_exec(e->group, &some, &x, 1);
        msi_exchange_free(&x, 1);
        if (st == MST_OK || st == MST_ERR_STORE_LOST) return st;
        mst_status ended = look_at_end(e); /* who gave up may have left since */
        if (ended != MST_OK) return ended;
        if (st == MST_ERR_PEER_LOST) return msi_group_check(e->group, false);
        if (st != MST_ERR_TIMEOUT) return st;
        if (msi_now() >= wait->deadline) return say_late(e);
    }
}

/* Decides how it ends, by what became of it here, or hears how another has decided. */
static mst_status conclude(const struct exchange *e, mst_status st) {
    char key[MSI_KEY_MAX + 8], note[NOTE_MAX] = "ok";
    struct msi_wait wait = {msi_deadline(MSI_LAST_WORDS_MS), NULL};
    if (st == MST_ERR_STORE_LOST || st == MST_ERR_PEER_LOST) return st; /* everybody knows */
    if (st != MST_OK) write_failure(e->group, st, note);
    snprintf(key, sizeof key, "%s/end", e->key);
    struct msi_exchange x = {
        .req = {.op = MSI_OP_COMPARE_SET, .key = msi_cstr(key), .desired = msi_cstr(note)}};
    mst_status told = msi_world_exec(e->group->world, &wait, &x, 1);
    struct msi_str end = told == MST_OK ? reply_str(&x) : msi_cstr("");
    if (told != MST_OK)
        st = told;
    else if (msi_str_equal(end, msi_cstr("ok")))
        st = MST_OK;
    else if (!msi_str_equal(end, msi_cstr(note)))
        st = read_failure(e->group, end);
    msi_exchange_free(&x, 1);
    return st;
}

/* All have come to this exchange, so nobody reads of the one before. */
static void forget_last(const mst_group *group) {
    static const char *const parts[] = {"", "/came", "/all", "/end"};
    enum { PARTS = sizeof parts / sizeof *parts };
    char keys[PARTS][MSI_KEY_MAX + 8], last[MSI_KEY_MAX];
    struct msi_exchange x[PARTS] = {0};
    struct msi_wait wait = {msi_deadline(MSI_LAST_WORDS_MS), NULL};
    if (group->rank != 0 || group->exchanges < 2) return;
    name_exchange(group, group->exchanges - 1, last);
    for (int i = 0; i < PARTS; i++) {
        snprintf(keys[i], sizeof keys[i], "%s%s", last, parts[i]);
        x[i].req = (struct msi_store_req){.op = MSI_OP_DELETE_KEY, .key = msi_cstr(keys[i])};
    }
    msi_world_exec(group->world, &wait, x, PARTS);
    msi_exchange_free(x, PARTS);
}

static void set_backends(mst_group *group, const struct msi_backends *backends) {
    group->backends = *backends;
    group->comm = group->device = NULL;
}

static mst_status agree_on(struct exchange *e, const struct msi_wait *wait) {
    mst_status st = e->wanted ? MST_OK : mst_last_error()->status;
    if (e->group->size == 1) return st;
    for (bool off = true; off;) {
        name_exchange(e->group, ++e->group->exchanges, e->key);
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
    for (int i = 0; i < e.n && st == MST_OK; i++) set_backends(e.groups[i], wanted);
    if (st == MST_OK && group->ranks) group->own_backends = true;
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
