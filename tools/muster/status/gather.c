/* gather.c - asks the launchers of a job and reads their answers. See status.h and status_keys.h. */
#include "status/status.h"

#include "cli/text.h"
#include "report/fields.h"
#include "status/status_keys.h"
#include "store/store.h"

#include "base/error.h"
#include "bootstrap/report.h"

#include <stdlib.h>

enum {
    REQUEST_MS = 10000,
    ENTER_MS = 1000,
    ANSWER_MS = 2000,
    LOOK_MS = 5,
    LOOK_MS_MOST = 80,
    NODES_MOST = 65536
};

mst_status status_read_value(mst_store *store, const char *key, struct msi_buf *value) {
    struct msi_wait wait = {msi_deadline(REQUEST_MS), NULL};
    struct msi_store_rpc x = {.req = msi_read_request(msi_cstr(key))};
    mst_status st = msi_store_exec(store, &wait, &x, 1);
    if (st == MST_OK) {
        struct msi_str found = msi_store_reply_value(&x);
        value->len = 0;
        msi_buf_add(value, found.p, found.n);
        if (value->failed) st = msi_fail_memory();
    }
    msi_store_rpc_free(&x, 1);
    return st;
}

static struct status_node *find_node(struct status_job *job, int64_t id) {
    for (int i = 0; i < job->n_nodes; i++)
        if (job->nodes[i].id == id) return &job->nodes[i];
    return NULL;
}

/* "+ID HOST" or "-ID" */
static void read_launcher(struct status_job *job, size_t *capacity, struct msi_str line) {
    char text[MSI_HOST_MAX + 32], host[MSI_HOST_MAX] = "", sign;
    long long id;
    msi_str_copy(line, text, sizeof text);
    if (sscanf(text, "%c%lld %255s", &sign, &id, host) < 2) return;
    struct status_node *node = find_node(job, id);
    if (sign == '-' && node) node->gone = true;
    if (sign != '+' || node || job->n_nodes == NODES_MOST) return;
    report_reserve(&job->nodes, (size_t)job->n_nodes, capacity, sizeof *job->nodes);
    node = &job->nodes[job->n_nodes++];
    *node = (struct status_node){.id = id};
    text_clean(host, false);
    msi_copy_text(node->host, sizeof node->host, host);
}

/* A launcher that has just started its ranks answers soon. */
static mst_status wait_for_launcher(mst_store *store) {
    static const char *const key = STATUS_LAUNCHERS_KEY;
    struct msi_buf hosts = {0};
    mst_status st = status_read_value(store, MSI_LAUNCH_HOSTS_KEY, &hosts);
    if (st == MST_OK && hosts.len > 0) st = mst_store_wait(store, &key, 1, .timeout_ms = ENTER_MS);
    msi_buf_free(&hosts);
    return st == MST_ERR_TIMEOUT ? MST_OK : st;
}

static mst_status read_launchers(mst_store *store, struct status_job *job) {
    struct msi_buf list = {0};
    size_t capacity = 0;
    mst_status st = wait_for_launcher(store);
    if (st == MST_OK) st = status_read_value(store, STATUS_LAUNCHERS_KEY, &list);
    struct msi_str rest = msi_buf_str(&list), line;
    while (st == MST_OK && msi_str_line(&rest, &line)) read_launcher(job, &capacity, line);
    msi_buf_free(&list);
    return st;
}

static mst_status request(mst_store *store, int64_t *number) {
    struct msi_wait wait = {msi_deadline(REQUEST_MS), NULL};
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_ADD, .key = msi_cstr(STATUS_COUNT_KEY), .number = 1}},
        {.req = {.op = MSI_OP_APPEND, .key = msi_cstr(STATUS_ASKED_KEY), .value = msi_cstr("?")}},
    };
    mst_status st = msi_store_exec(store, &wait, x, 2);
    if (st == MST_OK) *number = msi_store_reply_number(&x[0]);
    msi_store_rpc_free(x, 2);
    return st;
}

void status_copy(struct msi_json_text text, char *to, size_t size) {
    to[0] = '\0';
    if (text.n > 0) msi_json_copy(text, to, size);
    text_clean(to, false);
}

/* An answer that is malformed counts as none. */
static void read_answer(struct status_node *node) {
    struct answer {
        struct msi_json_text muster, run, phase, listens, secret;
        bool open_store;
        int64_t format, asked, pid, generation, nodes, world_size, first_rank, n;
        struct msi_str ranks;
    } a = {0};
#define AT(member) offsetof(struct answer, member)
    static const struct report_field fields[] = {
        REPORT_FIELD("format", NUMBER, AT(format), 0, INT64_MAX),
        REPORT_FIELD("muster", TEXT, AT(muster), 0, 0),
        REPORT_FIELD("asked", NUMBER, AT(asked), 0, INT64_MAX),
        REPORT_FIELD("run", TEXT, AT(run), 0, 0),
        REPORT_FIELD("pid", NUMBER, AT(pid), 0, INT32_MAX),
        REPORT_FIELD("phase", TEXT, AT(phase), 0, 0),
        REPORT_FIELD("generation", NUMBER, AT(generation), 0, INT32_MAX),
        REPORT_FIELD("nodes", NUMBER, AT(nodes), 1, NODES_MOST),
        REPORT_FIELD("world_size", NUMBER, AT(world_size), 1, REPORT_RANKS_MOST),
        REPORT_FIELD("first_rank", NUMBER, AT(first_rank), 0, REPORT_RANKS_MOST),
        REPORT_FIELD("local_world_size", NUMBER, AT(n), 0, REPORT_RANKS_MOST),
        REPORT_FIELD("listens", TEXT, AT(listens), 0, 0),
        REPORT_FIELD("secret", TEXT, AT(secret), 0, 0),
        REPORT_FIELD("open_store", BOOL, AT(open_store), 0, 0),
        REPORT_FIELD("ranks", RAW, AT(ranks), 0, 0),
        {0},
    };
#undef AT
    struct msi_json in = msi_json_of((const char *)node->answer.data, node->answer.len);
    report_read_object(&in, fields, &a);
    if (!msi_json_end(&in) || !a.world_size) return;
    node->format = a.format;
    node->asked = a.asked;
    node->pid = a.pid;
    node->generation = a.generation;
    node->nodes = a.nodes;
    node->world_size = a.world_size;
    node->first_rank = a.first_rank;
    node->n = a.n;
    node->ranks = a.ranks;
    node->open_store = a.open_store;
    status_copy(a.listens, node->listens, sizeof node->listens);
    status_copy(a.secret, node->secret, sizeof node->secret);
    status_copy(a.muster, node->muster, sizeof node->muster);
    status_copy(a.run, node->run, sizeof node->run);
    status_copy(a.phase, node->phase, sizeof node->phase);
}

/* Reads the answers that are missing; *missing: how many still are, of launchers that may answer. */
static mst_status read_answers(mst_store *store, struct status_job *job, int64_t number, int *missing) {
    char key[sizeof STATUS_NODE_KEY + 32];
    *missing = 0;
    for (int i = 0; i < job->n_nodes; i++) {
        struct status_node *node = &job->nodes[i];
        if (node->answered || node->gone) continue;
        snprintf(key, sizeof key, STATUS_NODE_KEY "%lld", (long long)node->id);
        mst_status st = status_read_value(store, key, &node->answer);
        if (st != MST_OK) return st;
        if (node->answer.len > 0) read_answer(node);
        node->answered = node->asked >= number;
        *missing += !node->answered;
    }
    return MST_OK;
}

mst_status status_ask(mst_store *store, struct status_job *job) {
    struct msi_wait wait = {msi_deadline(ANSWER_MS), NULL};
    int64_t number = 0;
    int missing = 0;
    mst_status st = read_launchers(store, job);
    if (st != MST_OK || job->n_nodes == 0) return st;
    st = request(store, &number);
    for (int ms = LOOK_MS; st == MST_OK; ms = ms < LOOK_MS_MOST ? 2 * ms : LOOK_MS_MOST) {
        st = read_answers(store, job, number, &missing);
        if (st != MST_OK || missing == 0 || msi_now() >= wait.deadline) break;
        st = msi_wait_pause(&wait, ms, "waiting for the launchers");
        if (st == MST_ERR_TIMEOUT) st = MST_OK;
    }
    for (int i = 0; i < job->n_nodes; i++)
        if (job->nodes[i].answered && (!job->newest || job->nodes[i].generation > job->newest->generation))
            job->newest = &job->nodes[i];
    return st;
}

void status_free(struct status_job *job) {
    for (int i = 0; i < job->n_nodes; i++) msi_buf_free(&job->nodes[i].answer);
    report_flights_free(&job->report);
    free(job->nodes);
    free(job->ranks);
}
