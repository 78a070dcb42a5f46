/*
 * fuzz_node_msg.c - the messages between launchers. The first byte picks the reader. A message that is read
 * can be written as one line and reads the same again; the ranks of an order follow each other.
 */
#include "../tools/muster/cli/options.c"
#include "../tools/muster/cli/text.c"
#include "../tools/muster/run/nodes/node_msg.c"

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A line as it is read: one newline, at its end, taken off. */
static char *check_line(char *line) {
    assert(line && strchr(line, '\n') == line + strlen(line) - 1);
    line[strlen(line) - 1] = 0;
    return line;
}

/* A text that fills the line to the last byte is shortened when it is written. */
static void check_text(const char *text, const char *again) {
    size_t len = strlen(again);
    assert(!strcmp(text, again) || (len > NODE_TEXT_MAX / 3 - 4 && !strncmp(text, again, len)));
}

static void check_same_notice(const struct notice *a, const struct notice *b) {
    assert(a->kind == b->kind && a->ticket == b->ticket && a->generation == b->generation);
    assert(a->node_rank == b->node_rank && a->n == b->n && a->min == b->min && a->max == b->max);
    assert(a->pid == b->pid && a->rank == b->rank && a->status == b->status && a->culprit == b->culprit);
    assert(a->final == b->final && a->signal == b->signal);
    check_text(a->text, b->text);
}

static bool check_notice(char *text) {
    struct notice notice, again;
    if (!notice_read(text, &notice)) return false;
    if (notice.kind == NOTICE_JOIN) assert(notice.min <= notice.max && notice.n > 0);
    char *line = check_line(notice_write(&notice));
    assert(notice_read(line, &again));
    check_same_notice(&notice, &again);
    free(line);
    return true;
}

static void check_ranks(const struct order *a, const struct order *b) {
    int next = 0;
    for (int i = 0; i < a->nodes; i++) {
        const struct node_ranks *p = &a->ranks[i], *q = &b->ranks[i];
        assert(p->ticket == q->ticket && p->first_rank == q->first_rank && p->n == q->n);
        assert(p->first_rank == next && p->n > 0);
        next += p->n;
    }
    assert(next == a->world_size);
}

static bool check_order(char *text) {
    struct order order, again;
    if (!order_read(text, &order)) return false; /* with nothing to free, as the leak checker sees */
    char *line = check_line(order_write(&order));
    assert(order_read(line, &again));
    assert(order.kind == again.kind && order.ticket == again.ticket && order.generation == again.generation);
    assert(order.signal == again.signal && order.status == again.status && order.nodes == again.nodes);
    assert(order.world_size == again.world_size);
    check_ranks(&order, &again);
    check_text(order.text, again.text);
    free(order.ranks);
    free(again.ranks);
    free(line);
    return true;
}

static bool check_info(char *text) {
    char run_id[NODE_RUN_ID_MAX] = "none", again[NODE_RUN_ID_MAX];
    if (!job_info_read(text, run_id)) {
        assert(!strcmp(run_id, "none"));
        return false;
    }
    char *written = job_info_write(run_id);
    assert(written && !strchr(written, '\n') && job_info_read(written, again) && !strcmp(run_id, again));
    free(written);
    return true;
}

/* Whatever a rank's report holds, it can be written. */
static void check_any_text(const char *text) {
    const struct notice notice = {.kind = NOTICE_FAILED, .text = text};
    struct notice again;
    char *line = check_line(notice_write(&notice));
    assert(notice_read(line, &again));
    check_text(text, again.text);
    free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool (*const checks[])(char *) = {check_notice, check_order, check_info};
    if (!size) return 0;
    char *text = malloc(size);
    if (!text) return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    check_any_text(text);
    bool escaped = checks[data[0] % 3] != check_info; /* a run id is written as it is */
    bool ends_early = escaped && strstr(text, "%00") != NULL;
    bool taken = checks[data[0] % 3](text);
    assert(!taken || !ends_early);
    free(text);
    return 0;
}
