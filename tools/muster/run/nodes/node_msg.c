/* node_msg.c - see node_msg.h. */
#include "run/nodes/node_msg.h"

#include "base/buf.h"
#include "cli/options.h"
#include "run/failure/survivors.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define INFO_PREFIX "muster-run-2 "

/* The numbers of a line in their order: int members of the message, with their limits. A text may follow. */
struct field {
    size_t offset;
    int min, max;
};
struct shape {
    char kind;
    bool has_text;
    int n;
    struct field fields[6];
};

#define FIELD(type, member, min, max)                                                                        \
    { offsetof(struct type, member), min, max }
#define TICKET(type)     FIELD(type, ticket, 0, NODE_TICKET_MOST)
#define GENERATION(type) FIELD(type, generation, 0, INT_MAX)
#define STATUS(type)     FIELD(type, status, 0, 255)

static const struct shape notices[] = {
    {NOTICE_JOIN,
     true,
     6,
     {TICKET(notice), FIELD(notice, node_rank, -1, NODE_MOST - 1), FIELD(notice, n, 1, NODE_MOST),
      FIELD(notice, min, 1, NODE_MOST), FIELD(notice, max, 1, NODE_MOST), FIELD(notice, pid, 0, INT_MAX)}},
    {NOTICE_FAILED, true, 2, {TICKET(notice), GENERATION(notice)}},
    {NOTICE_RANK,
     true,
     6,
     {TICKET(notice), GENERATION(notice), FIELD(notice, serial, 1, INT_MAX), FIELD(notice, rank, 0, INT_MAX),
      FIELD(notice, event, RANK_DONE, RANK_JOINED), FIELD(notice, waited, 0, 1)}},
    {NOTICE_STOPPED,
     true,
     6,
     {TICKET(notice), GENERATION(notice), FIELD(notice, rank, -1, INT_MAX), STATUS(notice),
      FIELD(notice, culprit, -1, INT_MAX), FIELD(notice, final, 0, 1)}},
    {NOTICE_LEAVE, false, 2, {TICKET(notice), FIELD(notice, signal, 0, 64)}},
    {NOTICE_DIED, false, 1, {TICKET(notice)}},
    {0},
};

/* The nodes' ranks follow the numbers of ORDER_START. */
static const struct shape orders[] = {
    {ORDER_REFUSE, true, 2, {TICKET(order), STATUS(order)}},
    {ORDER_START,
     false,
     3,
     {GENERATION(order), FIELD(order, world_size, 1, NODE_RANKS_MOST), FIELD(order, nodes, 1, NODE_MOST)}},
    {ORDER_STOP, true, 2, {GENERATION(order), FIELD(order, signal, 0, 64)}},
    {ORDER_SIGNAL, false, 2, {GENERATION(order), FIELD(order, signal, 1, 64)}},
    {ORDER_RANK, false, 3, {GENERATION(order), FIELD(order, rank, 0, INT_MAX), FIELD(order, replace, 0, 1)}},
    {ORDER_ALONE, false, 2, {GENERATION(order), FIELD(order, alone, 0, 1)}},
    {ORDER_END, true, 1, {STATUS(order)}},
    {0},
};

static const struct shape *find_shape(const struct shape *shapes, int kind) {
    while (shapes->kind && shapes->kind != kind) shapes++;
    return shapes;
}

/* Without line ends; shortened to what a reader accepts. */
static void add_escaped(struct msi_buf *out, const char *text) {
    size_t limit = out->len + NODE_TEXT_MAX - 4;
    for (; *text && out->len < limit && !out->failed; text++)
        if (*text == '\n' || *text == '\r' || *text == '%')
            msi_buf_add_format(out, "%%%02x", (unsigned)(unsigned char)*text);
        else
            msi_buf_add_u8(out, (uint8_t)*text);
}

static void add_message(struct msi_buf *out, const struct shape *shape, const void *message,
                        const char *text) {
    msi_buf_add_u8(out, (uint8_t)shape->kind);
    for (int i = 0; i < shape->n; i++) {
        int number;
        memcpy(&number, (const char *)message + shape->fields[i].offset, sizeof number);
        msi_buf_add_format(out, " %d", number);
    }
    if (!shape->has_text) return;
    msi_buf_add_u8(out, ' ');
    add_escaped(out, text ? text : "");
}

/* The buffer as a string that the caller frees. */
static char *finish(struct msi_buf *out, const char *end) {
    msi_buf_add(out, end, strlen(end) + 1);
    if (out->failed) msi_buf_free(out);
    return (char *)out->data;
}

char *notice_write(const struct notice *n) {
    struct msi_buf out = {0};
    add_message(&out, find_shape(notices, n->kind), n, n->text);
    return finish(&out, "\n");
}

/* "G 1 8 2 0:0:4 3:4:4": generation, ranks, nodes; for each node: ticket, first rank, ranks. */
char *order_write(const struct order *o) {
    struct msi_buf out = {0};
    add_message(&out, find_shape(orders, o->kind), o, o->text);
    for (int i = 0; o->kind == ORDER_START && i < o->nodes; i++)
        msi_buf_add_format(&out, " %d:%d:%d", o->ranks[i].ticket, o->ranks[i].first_rank, o->ranks[i].n);
    return finish(&out, "\n");
}

char *node_hosts_write(const char *run_id, int generation, const struct node_ranks *ranks, int n) {
    struct msi_buf out = {0};
    for (int i = 0; i < n; i++)
        msi_buf_add_format(&out, "%s.%d %d %d %.*s\n", run_id, generation, ranks[i].first_rank, ranks[i].n,
                           (int)strcspn(ranks[i].host, "\r\n"), ranks[i].host);
    return finish(&out, "");
}

char *job_info_write(const char *run_id) {
    struct msi_buf out = {0};
    msi_buf_add_text(&out, INFO_PREFIX);
    return finish(&out, run_id);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place; false if add_escaped does not write such a text. */
static bool unescape(char *text) {
    char *out = text;
    if (strlen(text) >= NODE_TEXT_MAX) return false;
    for (; *text; text++) {
        if (*text != '%') {
            *out++ = *text;
            continue;
        }
        int high = hex_digit(text[1]), low = high < 0 ? -1 : hex_digit(text[2]);
        if (low < 0 || high * 16 + low == 0) return false;
        *out++ = (char)(high * 16 + low);
        text += 2;
    }
    *out = 0;
    return true;
}

/* Reads the number before the separator; *line becomes the rest of the line, or NULL at its end. */
static bool take_number(char **line, char separator, int min, int max, int *number) {
    char *word = *line;
    long long value;
    if (!word) return false;
    *line = strchr(word, separator);
    if (*line) *(*line)++ = 0;
    if (!opt_read_number(word, min, max, &value)) return false;
    *number = (int)value;
    return true;
}

/* Reads the numbers and the text of a line; *line becomes the rest, or NULL at its end. */
static bool take_message(char **line, const struct shape *shape, void *message, const char **text) {
    for (int i = 0; i < shape->n; i++) {
        const struct field *field = &shape->fields[i];
        int number;
        if (!take_number(line, ' ', field->min, field->max, &number)) return false;
        memcpy((char *)message + field->offset, &number, sizeof number);
    }
    if (!shape->has_text) return true;
    if (!*line || !unescape(*line)) return false;
    *text = *line;
    *line = NULL;
    return true;
}

/* Without blanks and control characters, so that it fits into lines of words and onto a terminal. */
static bool is_word(const char *text) {
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f) return false;
    return text[0];
}

bool notice_read(char *line, struct notice *n) {
    const struct shape *shape = find_shape(notices, line[0]);
    if (!shape->kind || line[1] != ' ') return false;
    line += 2;
    *n = (struct notice){.kind = (enum notice_kind)shape->kind, .text = ""};
    if (!take_message(&line, shape, n, &n->text) || line) return false;
    return n->kind != NOTICE_JOIN ||
           (n->max >= n->min && is_word(n->text) && strlen(n->text) < NODE_HOST_MAX);
}

/* Ranks must follow each other without a gap, and their number must be the world size. */
static bool take_ranks(char *line, struct order *o) {
    int next = 0;
    for (int i = 0; i < o->nodes; i++) {
        struct node_ranks *r = &o->ranks[i];
        if (!take_number(&line, ':', 0, NODE_TICKET_MOST, &r->ticket) ||
            !take_number(&line, ':', next, next, &r->first_rank) ||
            !take_number(&line, ' ', 1, NODE_MOST, &r->n) || r->n > o->world_size - next)
            return false;
        next += r->n;
    }
    return !line && next == o->world_size;
}

bool order_read(char *line, struct order *o) {
    const struct shape *shape = find_shape(orders, line[0]);
    if (!shape->kind || line[1] != ' ') return false;
    line += 2;
    *o = (struct order){.kind = (enum order_kind)shape->kind, .text = ""};
    if (!take_message(&line, shape, o, &o->text)) return false;
    if (o->kind != ORDER_START) return !line;
    if (!line || strlen(line) / 5 + 1 < (size_t)o->nodes)
        return false; /* before memory for them is allocated */
    o->ranks = calloc((size_t)o->nodes, sizeof o->ranks[0]);
    if (o->ranks && take_ranks(line, o)) return true;
    free(o->ranks);
    o->ranks = NULL;
    return false;
}

bool job_info_read(const char *text, char run_id[NODE_RUN_ID_MAX]) {
    size_t len = strlen(INFO_PREFIX);
    if (strncmp(text, INFO_PREFIX, len) != 0 || !is_word(text + len) || strlen(text + len) >= NODE_RUN_ID_MAX)
        return false;
    strcpy(run_id, text + len);
    return true;
}
