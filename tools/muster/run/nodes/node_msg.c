/* node_msg.c - see node_msg.h. */
#include "run/nodes/node_msg.h"

#include "cli/options.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CARD_VERSION "muster-run-1"

/* A copy without line ends, shortened if need be; NULL without memory. */
static char *escape(const char *text) {
    char *made = malloc(NODE_TEXT_MAX), *at = made;

    if (made == NULL) return NULL;
    for (; *text != '\0' && at - made < NODE_TEXT_MAX - 4; text++) {
        if (*text == '\n' || *text == '\r' || *text == '%')
            at += sprintf(at, "%%%02x", (unsigned)(unsigned char)*text);
        else
            *at++ = *text;
    }
    *at = '\0';
    return made;
}

static int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place; false if it is not what escape makes. */
static bool unescape(char *text) {
    char *out = text;

    if (strlen(text) >= NODE_TEXT_MAX) return false;
    for (; *text != '\0'; text++) {
        if (*text != '%') {
            *out++ = *text;
            continue;
        }
        int high = digit(text[1]), low = high < 0 ? -1 : digit(text[2]);
        if (low < 0 || high * 16 + low == 0) return false;
        *out++ = (char)(high * 16 + low);
        text += 2;
    }
    *out = '\0';
    return true;
}

/* What comes before the mark as a number, and the line goes on behind it. */
static bool take_until(char **line, char mark, long long min, long long max, int *number) {
    char *word = *line;
    long long value;

    if (word == NULL) return false;
    *line = strchr(word, mark);
    if (*line != NULL) *(*line)++ = '\0';
    if (!opt_read_number(word, min, max, &value)) return false;
    *number = (int)value;
    return true;
}

static bool take_number(char **line, long long min, long long max, int *number) {
    return take_until(line, ' ', min, max, number);
}

/* The rest of the line. */
/* A word that is fit for a terminal and for lines of words. */
static bool is_word(const char *text) {
    for (const char *c = text; *c != '\0'; c++)
        if (*c <= ' ' || *c == 0x7f) return false;
    return text[0] != '\0';
}

static bool take_text(char *line, const char **text) {
    if (line == NULL || !unescape(line)) return false;
    *text = line;
    return true;
}

char *notice_write(const struct notice *n) {
    char *line = NULL, *text = escape(n->text != NULL ? n->text : "");
    int rc = -1;

    if (text == NULL) return NULL;
    switch (n->kind) {
    case NOTICE_JOIN:
        rc = asprintf(&line, "J %d %d %d %d %d %d %s\n", n->ticket, n->node_rank, n->n, n->min, n->max,
                      n->pid, text);
        break;
    case NOTICE_FAILED:
        rc = asprintf(&line, "N %d %d %s\n", n->ticket, n->generation, text);
        break;
    case NOTICE_STOPPED:
        rc = asprintf(&line, "S %d %d %d %d %d %d %s\n", n->ticket, n->generation, n->rank, n->status,
                      n->culprit, (int)n->final, text);
        break;
    case NOTICE_LEAVE:
        rc = asprintf(&line, "Q %d %d\n", n->ticket, n->signal);
        break;
    case NOTICE_DIED:
        rc = asprintf(&line, "D %d\n", n->ticket);
        break;
    }
    free(text);
    return rc < 0 ? NULL : line;
}

bool notice_read(char *line, struct notice *n) {
    char kind = line[0];
    int final = 0;

    if (kind == '\0' || line[1] != ' ') return false;
    line += 2;
    *n = (struct notice){.kind = (enum notice_kind)kind, .text = ""};
    if (!take_number(&line, 0, NODE_TICKET_MOST, &n->ticket)) return false;
    switch (n->kind) {
    case NOTICE_JOIN:
        return take_number(&line, -1, NODE_MOST - 1, &n->node_rank) &&
               take_number(&line, 1, NODE_MOST, &n->n) && take_number(&line, 1, NODE_MOST, &n->min) &&
               take_number(&line, n->min, NODE_MOST, &n->max) && take_number(&line, 0, INT_MAX, &n->pid) &&
               take_text(line, &n->text) && is_word(n->text) && strlen(n->text) < NODE_HOST_MAX;
    case NOTICE_FAILED:
        return take_number(&line, 0, INT_MAX, &n->generation) && take_text(line, &n->text);
    case NOTICE_STOPPED:
        if (!take_number(&line, 0, INT_MAX, &n->generation) || !take_number(&line, -1, INT_MAX, &n->rank) ||
            !take_number(&line, 0, 255, &n->status) || !take_number(&line, -1, INT_MAX, &n->culprit) ||
            !take_number(&line, 0, 1, &final))
            return false;
        n->final = final;
        return take_text(line, &n->text);
    case NOTICE_LEAVE:
        return take_number(&line, 0, 64, &n->signal) && line == NULL;
    case NOTICE_DIED:
        return line == NULL;
    default:
        return false;
    }
}

/* "G 1 8 2 0:0:4 3:4:4": generation, ranks, nodes, and of each ticket, first rank and number of ranks. */
static char *go_write(const struct order *o) {
    enum { HEAD = 64, EACH = 40 };
    size_t size = HEAD + (size_t)o->nodes * EACH;
    char *line = malloc(size);

    if (line == NULL) return NULL;
    size_t at = (size_t)snprintf(line, size, "G %d %d %d", o->generation, o->world_size, o->nodes);
    for (int i = 0; i < o->nodes; i++) {
        const struct node_place *p = &o->places[i];
        at += (size_t)snprintf(line + at, size - at, " %d:%d:%d", p->ticket, p->first_rank, p->n);
    }
    snprintf(line + at, size - at, "\n");
    return line;
}

char *order_write(const struct order *o) {
    if (o->kind == ORDER_GO) return go_write(o);
    char *line = NULL, *text = escape(o->text != NULL ? o->text : "");
    int rc = -1;

    if (text == NULL) return NULL;
    if (o->kind == ORDER_STOP)
        rc = asprintf(&line, "X %d %d %s\n", o->generation, o->signal, text);
    else if (o->kind == ORDER_PASS)
        rc = asprintf(&line, "P %d %d\n", o->generation, o->signal);
    else if (o->kind == ORDER_REFUSE)
        rc = asprintf(&line, "R %d %d %s\n", o->ticket, o->status, text);
    else
        rc = asprintf(&line, "E %d %s\n", o->status, text);
    free(text);
    return rc < 0 ? NULL : line;
}

/* Ranks follow each other without a gap, and there are as many as the order says. */
static bool take_places(char *line, struct order *o) {
    int next = 0;

    for (int i = 0; i < o->nodes; i++) {
        struct node_place *p = &o->places[i];

        if (!take_until(&line, ':', 0, NODE_TICKET_MOST, &p->ticket) ||
            !take_until(&line, ':', next, next, &p->first_rank) || !take_number(&line, 1, NODE_MOST, &p->n) ||
            p->n > o->world_size - next)
            return false;
        next += p->n;
    }
    return line == NULL && next == o->world_size;
}

static bool go_read(char *line, struct order *o) {
    if (!take_number(&line, 0, INT_MAX, &o->generation) ||
        !take_number(&line, 1, NODE_RANKS_MOST, &o->world_size) ||
        !take_number(&line, 1, NODE_MOST, &o->nodes) || line == NULL ||
        strlen(line) / 5 + 1 < (size_t)o->nodes)
        return false;
    o->places = calloc((size_t)o->nodes, sizeof o->places[0]);
    if (o->places != NULL && take_places(line, o)) return true;
    free(o->places);
    o->places = NULL;
    return false;
}

bool order_read(char *line, struct order *o) {
    char kind = line[0];

    if (kind == '\0' || line[1] != ' ') return false;
    line += 2;
    *o = (struct order){.kind = (enum order_kind)kind, .text = ""};
    switch (o->kind) {
    case ORDER_REFUSE:
        return take_number(&line, 0, NODE_TICKET_MOST, &o->ticket) &&
               take_number(&line, 0, 255, &o->status) && take_text(line, &o->text);
    case ORDER_GO:
        return go_read(line, o);
    case ORDER_STOP:
        return take_number(&line, 0, INT_MAX, &o->generation) && take_number(&line, 0, 64, &o->signal) &&
               take_text(line, &o->text);
    case ORDER_PASS:
        return take_number(&line, 0, INT_MAX, &o->generation) && take_number(&line, 1, 64, &o->signal) &&
               line == NULL;
    case ORDER_END:
        return take_number(&line, 0, 255, &o->status) && take_text(line, &o->text);
    default:
        return false;
    }
}

char *node_hosts_write(const char *run_id, int generation, const struct node_place *places, int n) {
    size_t each = strlen(run_id) + NODE_HOST_MAX + 48, used = 0;
    char *lines = malloc(each * (size_t)n + 1);

    if (lines == NULL) return NULL;
    lines[0] = '\0';
    for (int i = 0; i < n; i++)
        used += (size_t)snprintf(lines + used, each, "%s.%d %d %d %.*s\n", run_id, generation,
                                 places[i].first_rank, places[i].n, (int)strcspn(places[i].host, "\r\n"),
                                 places[i].host);
    return lines;
}

char *job_card_write(const struct job_card *card) {
    char *text = NULL, *id = escape(card->id);

    if (id == NULL) return NULL;
    int rc = asprintf(&text, CARD_VERSION " %d %d %s", card->min, card->max, id);
    free(id);
    return rc < 0 ? NULL : text;
}

bool job_card_read(char *text, struct job_card *card) {
    size_t len = strlen(CARD_VERSION " ");
    struct job_card read;
    const char *id;

    if (strncmp(text, CARD_VERSION " ", len) != 0) return false;
    text += len;
    if (!take_number(&text, 1, NODE_MOST, &read.min) || !take_number(&text, read.min, NODE_MOST, &read.max) ||
        !take_text(text, &id) || strlen(id) >= sizeof read.id)
        return false;
    strcpy(read.id, id);
    *card = read;
    return true;
}
