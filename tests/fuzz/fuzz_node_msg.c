/*
 * fuzz_node_msg.c - what launchers write to each other. The first byte picks the reader. Whatever is read can be written, as one line, and
 * reads the same again; the places of an order follow each other.
 */
#include "../tools/muster/nearest.c"
#include "../tools/muster/node_msg.c"
#include "../tools/muster/options.c"

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

static void check_notice(char *text) {
    struct notice notice, again;
    if (!notice_read(text, &notice)) return;
    if (notice.kind == NOTICE_JOIN) assert(notice.min <= notice.max && notice.n > 0);
    char *line = check_line(notice_write(&notice));
    assert(notice_read(line, &again));
    check_same_notice(&notice, &again);
    free(line);
}

static void check_places(const struct order *a, const struct order *b) {
    int next = 0;
    for (int i = 0; i < a->nodes; i++) {
        const struct node_place *p = &a->places[i], *q = &b->places[i];
        assert(p->ticket == q->ticket && p->first_rank == q->first_rank && p->n == q->n);
        assert(p->first_rank == next && p->n > 0);
        next += p->n;
    }
    assert(next == a->world_size);
}

static void check_order(char *text) {
    struct order order, again;
    if (!order_read(text, &order)) return; /* with nothing to free, as the leak checker sees */
    char *line = check_line(order_write(&order));
    assert(order_read(line, &again));
    assert(order.kind == again.kind && order.ticket == again.ticket && order.generation == again.generation);
    assert(order.signal == again.signal && order.status == again.status && order.nodes == again.nodes);
    assert(order.world_size == again.world_size);
    check_places(&order, &again);
    check_text(order.text, again.text);
    free(order.places);
    free(again.places);
    free(line);
}

static void check_card(char *text) {
    struct job_card card = {.min = -1}, again;
    if (!job_card_read(text, &card)) {
        assert(card.min == -1);
        return;
    }
    assert(1 <= card.min && card.min <= card.max && card.max <= NODE_MOST);
    char *written = job_card_write(&card);
    assert(written && !strchr(written, '\n') && job_card_read(written, &again));
    assert(card.min == again.min && card.max == again.max && !strcmp(card.id, again.id));
    free(written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const checks[])(char *) = {check_notice, check_order, check_card};
    if (!size) return 0;
    char *text = malloc(size);
    if (!text) return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    checks[data[0] % 3](text);
    free(text);
    return 0;
}
