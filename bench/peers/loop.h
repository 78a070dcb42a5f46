/*
 * loop.h - how `muster bench` measures an operation: the loop of all sides that are written in C, so that it is the same for
 * muster and for the MPIs. torch_ops.py follows it in Python; loop_data.h says what is in the buffers.
 *
 * First the ranks pass barriers for a while. One measurement is one operation at one size: a call whose result is
 * checked element by element, a few calls to see how long one takes, then batches of calls until the budget is spent,
 * then single calls with a look at the clock after each, then such a check again. A batch begins at a barrier and takes as
 * long as its slowest rank; the median of the batches counts, and the 99th percentile of the single calls, on the rank where it
 * is longest. Roots change from call to call, so that no root runs ahead of the others. Before each batch the ends of the
 * output that its last call writes are spoilt, and afterwards they must be right. Wrong elements are counted; the
 * measurement goes on.
 *
 * A program is run as PROGRAM OPERATION DTYPE SIZES COVER SECONDS BIND RESULTS: sizes in bytes of the whole buffer, separated
 * by commas; COVER 0 for one set of buffers, else sets that take turns and have so many bytes in all on this rank; BIND
 * 1 to stay on one of the processors that the rank may use. What it finds is appended to the file RESULTS, a line each:
 * "BYTES MEDIAN P99" in nanoseconds, "wrong BYTES ELEMENTS ..." and who found what, "unsupported ..." or "failed ...".
 */
#ifndef LOOP_H
#define LOOP_H

#include "loop_data.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LOOP_SETS_MOST = 256, LOOP_BATCHES_MOST = 201, LOOP_BATCHES_LEAST = 3 };
enum { LOOP_SINGLES_LEAST = 100, LOOP_SINGLES_MOST = 2000, LOOP_WORDS = 7 };
#define LOOP_SETTLE_MOST 0.25 /* seconds */
enum { LOOP_MISTAKE = -1, LOOP_NO_MEMORY = -2, LOOP_UNSUPPORTED = -3 };

/* What a side brings. Functions return 0, or what loop_run shall end with. */
struct loop_side {
    int rank, size;
    int (*call)(const struct loop_call *call);
    int (*barrier)(void);
    int (*longest)(double *seconds); /* makes it the most of all ranks */
    void *(*alloc)(size_t bytes);    /* aligned to pages; NULL if there is no memory */
    void (*release)(void *memory);
    loop_copy *copy; /* into and out of buffers */
};

struct loop_plan {
    enum loop_op op;
    const struct loop_dtype *dtype;
    const char *sizes, *results;
    size_t cover;
    double budget;
    int bind;
};

struct loop_state {
    const struct loop_side *side;
    const struct loop_plan *plan;
    struct loop_call call;
    struct loop_pattern values, sums;
    size_t bytes, in_count, out_count, in_stride, out_stride; /* counts of one set; strides in bytes */
    unsigned char *in, *out;                                  /* all sets */
    int sets, set;
    size_t token; /* which element of the pattern the next batch of broadcasts carries */
    size_t wrong; /* elements, so far */
    char first[120];
    double samples[LOOP_SINGLES_MOST];
};

static inline double loop_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline double loop_clamp(double x, double least, double most) {
    return x < least ? least : x > most ? most : x;
}

/* Appends a line to the results. */
static inline void loop_say(const struct loop_plan *plan, const char *line) {
    FILE *file = fopen(plan->results, "a");
    if (file == NULL) return;
    fprintf(file, "%s\n", line);
    fclose(file);
}

static inline const struct loop_pattern *loop_expects(const struct loop_state *s) {
    return loop_reduces(s->call.op) ? &s->sums : &s->values;
}

static inline void loop_note(struct loop_state *s, size_t wrong, size_t i, const void *at,
                             const unsigned char *expected) {
    size_t element = s->plan->dtype->element;
    unsigned char got[LOOP_ELEMENT_MOST];

    s->side->copy(got, at, element);
    if (s->wrong == 0)
        snprintf(s->first, sizeof s->first, "element %zu is 0x%llx, not 0x%llx", i, loop_bits(got, element),
                 loop_bits(expected, element));
    s->wrong += wrong;
}

/* Points the call at the set whose turn it is. */
static inline void loop_aim(struct loop_state *s) {
    s->call.in = s->in + (size_t)s->set * s->in_stride;
    s->call.out = s->out + (size_t)s->set * s->out_stride;
}

/* One call, and on to the next root and the next set. */
static inline int loop_step(struct loop_state *s) {
    loop_aim(s);
    int status = s->side->call(&s->call);
    if (++s->set == s->sets) s->set = 0;
    if (++s->call.root == s->side->size) s->call.root = 0;
    return status;
}

static inline void loop_look(struct loop_state *s, const struct loop_call *c) {
    const struct loop_pattern *p = loop_expects(s);
    size_t length = 0, first = 0;

    for (size_t at = 0, k = 0; at < s->out_count; at += length, k++) {
        size_t from = loop_begins(c, k, &length);
        const unsigned char *got = (const unsigned char *)c->out + at * p->element;
        size_t wrong = loop_differences(p, s->side->copy, got, from, length, &first);
        if (wrong > 0) loop_note(s, wrong, at + first, got + first * p->element, loop_at(p, from + first));
    }
}

/* One call, of whose output every element is looked at. */
static inline int loop_check_all(struct loop_state *s) {
    loop_aim(s);
    if (s->call.op == LOOP_BROADCAST)
        loop_lay(&s->values, s->side->copy, s->call.out, (size_t)s->side->rank, s->out_count);
    else
        loop_spoil_bytes(s->side->copy, s->call.out, s->out_count * s->plan->dtype->element);
    struct loop_call c = s->call;
    int status = loop_step(s);
    if (status == 0 && loop_receives(&c)) loop_look(s, &c);
    return status;
}

/*
 * Spoils the first and the last element of the output that the last of the next calls writes; *last gets that call. What
 * is broadcast comes from the first call that uses this set of buffers: its root gets an element that was not there before.
 */
static inline void loop_spoil(struct loop_state *s, int calls, struct loop_call *last) {
    size_t element = s->plan->dtype->element;
    int before = (calls - 1) % s->sets;
    unsigned char *out = s->out + (size_t)((s->set + calls - 1) % s->sets) * s->out_stride;

    *last = s->call;
    last->root = (s->call.root + calls - 1) % s->side->size;
    last->out = out;
    if (s->out_count == 0) return;
    s->token++;
    for (size_t i = 0; i < 2; i++) {
        unsigned char *end = out + i * (s->out_count - 1) * element;
        if (s->call.op == LOOP_BROADCAST && (s->call.root + before) % s->side->size == s->side->rank)
            s->side->copy(end, loop_at(&s->values, s->token), element);
        else
            loop_spoil_bytes(s->side->copy, end, element);
    }
}

static inline void loop_check_ends(struct loop_state *s, const struct loop_call *last) {
    const struct loop_pattern *p = loop_expects(s);
    size_t length, stride = s->out_count > 1 ? s->out_count - 1 : 1;

    if (s->out_count == 0 || !loop_receives(last)) return;
    loop_begins(last, 0, &length);
    for (size_t i = 0; i < s->out_count; i += stride) {
        size_t from =
            s->call.op == LOOP_BROADCAST ? s->token : loop_begins(last, i / length, &length) + i % length;
        const unsigned char *at = (const unsigned char *)last->out + i * p->element;
        unsigned char got[LOOP_ELEMENT_MOST];
        s->side->copy(got, at, p->element);
        if (memcmp(got, loop_at(p, from), p->element) != 0) loop_note(s, 1, i, at, loop_at(p, from));
    }
}

/* Seconds that one of so many calls takes on the slowest rank. */
static inline int loop_batch(struct loop_state *s, int calls, double *seconds) {
    struct loop_call last;

    loop_spoil(s, calls, &last);
    int status = s->side->barrier();
    double start = loop_now();
    for (int i = 0; i < calls && status == 0; i++) status = loop_step(s);
    double spent = loop_now() - start;
    if (status == 0) status = s->side->longest(&spent);
    *seconds = spent / calls;
    if (status == 0) loop_check_ends(s, &last);
    return status;
}

static inline int loop_compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The least sample that so many of a hundred do not exceed. */
static inline double loop_percentile(struct loop_state *s, int n, int percent) {
    qsort(s->samples, (size_t)n, sizeof s->samples[0], loop_compare);
    return s->samples[(n * percent + 99) / 100 - 1];
}

/* The 99th percentile of single calls, of which one takes about so long. */
static inline int loop_singles(struct loop_state *s, double each, double *p99) {
    int n = (int)loop_clamp(s->plan->budget / 4 / each, LOOP_SINGLES_LEAST, LOOP_SINGLES_MOST);
    int status = s->side->barrier();
    double before = loop_now();

    for (int i = 0; i < n && status == 0; i++) {
        status = loop_step(s);
        double now = loop_now();
        s->samples[i] = now - before;
        before = now;
    }
    *p99 = loop_percentile(s, n, 99);
    return status == 0 ? s->side->longest(p99) : status;
}

static inline void loop_report(const struct loop_state *s, double median, double p99) {
    double scale = s->call.op == LOOP_SEND_RECV ? 0.5e9 : 1e9;
    char line[240];

    snprintf(line, sizeof line, "%zu %.1f %.1f", s->bytes, median * scale,
             (p99 > median ? p99 : median) * scale);
    if (s->side->rank == 0) loop_say(s->plan, line);
}

/* All ranks see the same times, so all make the same calls. */
static inline int loop_measure(struct loop_state *s) {
    double budget = s->plan->budget, each = 0, spent = 0;
    int n = 0, status = loop_batch(s, 1, &each);

    if (status == 0) status = loop_batch(s, (int)loop_clamp(budget / 5 / each, 1, 500), &each);
    int calls = (int)loop_clamp(budget / 50 / each, 1, 2000);
    if (calls > 1) calls = (calls + s->side->size - 1) / s->side->size * s->side->size;
    while (status == 0 && n < LOOP_BATCHES_MOST && (n < LOOP_BATCHES_LEAST || spent < budget)) {
        status = loop_batch(s, calls, &s->samples[n]);
        spent += s->samples[n++] * calls;
    }
    if (status != 0) return status;
    double p99 = loop_percentile(s, n, 99), median = loop_percentile(s, n, 50);
    if (calls > 1) status = loop_singles(s, median, &p99); /* else the batches were single calls */
    if (status == 0) loop_report(s, median, p99);
    return status;
}

static inline size_t loop_stride(size_t bytes) {
    size_t unit = bytes < 4096 ? 64 : 4096;
    return (bytes + unit - 1) / unit * unit;
}

static inline void loop_set_up(struct loop_state *s, size_t bytes) {
    const struct loop_dtype *dtype = s->plan->dtype;
    struct loop_call *c = &s->call;
    long most = loop_reduces(c->op) ? dtype->exact / s->side->size + 1 : dtype->exact + 1;

    c->count = bytes / dtype->element;
    c->block = c->count / (size_t)s->side->size;
    s->bytes = c->count * dtype->element;
    s->in_count = c->op == LOOP_ALL_GATHER || c->op == LOOP_GATHER ? c->block
                  : c->op == LOOP_BROADCAST                        ? 0
                                                                   : c->count;
    s->out_count = c->op == LOOP_REDUCE_SCATTER || c->op == LOOP_SCATTER ? c->block : c->count;
    s->in_stride = loop_stride(s->in_count * dtype->element);
    s->out_stride = loop_stride(s->out_count * dtype->element);
    size_t set = s->in_stride + s->out_stride, period = most < LOOP_PRIME ? (size_t)most : LOOP_PRIME;
    s->sets = 1;
    if (s->plan->cover > 0 && set > 0)
        s->sets = (int)loop_clamp((double)(s->plan->cover / set) + 1, 2, LOOP_SETS_MOST);
    loop_make_pattern(&s->values, dtype, period, 1);
    loop_make_pattern(&s->sums, dtype, period, s->side->size);
}

/* The inputs first, then the outputs: pages that are touched in turn lie in turn in memory, which slows some copies. */
static inline void loop_fill(struct loop_state *s) {
    for (int set = 0; set < s->sets; set++)
        loop_lay(&s->values, s->side->copy, s->in + (size_t)set * s->in_stride, (size_t)s->side->rank,
                 s->in_count);
    loop_spoil_bytes(s->side->copy, s->out, (size_t)s->sets * s->out_stride);
}

static inline int loop_all(struct loop_state *s) {
    loop_fill(s);
    int status = loop_check_all(s);
    if (status == 0) status = loop_check_all(s); /* another root */
    if (status == 0) status = loop_measure(s);
    return status == 0 ? loop_check_all(s) : status;
}

static inline int loop_size(const struct loop_side *side, const struct loop_plan *plan, size_t bytes) {
    static struct loop_state state;
    struct loop_state *s = &state;
    char line[240];

    *s = (struct loop_state){.side = side, .plan = plan};
    s->call = (struct loop_call){.op = plan->op, .rank = side->rank, .size = side->size};
    loop_set_up(s, bytes);
    s->in = side->alloc((size_t)s->sets * s->in_stride + 4096);
    s->out = side->alloc((size_t)s->sets * s->out_stride + 4096);
    int status = s->in != NULL && s->out != NULL ? loop_all(s) : LOOP_NO_MEMORY;
    if (status == LOOP_NO_MEMORY) loop_say(plan, "failed no memory for the buffers");
    snprintf(line, sizeof line, "wrong %zu %zu rank %d of %d: %.119s", s->bytes, s->wrong, side->rank,
             side->size, s->first);
    if (s->wrong > 0) loop_say(plan, line);
    if (s->in != NULL) side->release(s->in);
    if (s->out != NULL) side->release(s->out);
    return status;
}

/* Moves to a processor that no other rank takes, while there are enough. Where a launcher has chosen one it is left. */
static inline void loop_bind(int rank) {
    cpu_set_t allowed, one;

    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    int skip = rank % CPU_COUNT(&allowed), cpu = 0;
    while (!CPU_ISSET(cpu, &allowed) || skip-- > 0) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

/*
 * Ranks that have just met may share a processor while another is idle, until the system spreads them: that would count
 * against the first size alone.
 */
static inline int loop_settle(const struct loop_side *side, double seconds) {
    double start = loop_now(), spent = 0;
    int status = 0;

    while (status == 0 && spent < seconds) {
        for (int i = 0; i < 20 && status == 0; i++) status = side->barrier();
        spent = loop_now() - start;
        if (status == 0) status = side->longest(&spent);
    }
    return status;
}

static inline int loop_run(const struct loop_side *side, const struct loop_plan *plan) {
    const char *at = plan->sizes;

    if (loop_reduces(plan->op) && side->size > plan->dtype->exact) {
        if (side->rank == 0)
            loop_say(plan, "unsupported the sum of so many ranks is not exact in this dtype");
        return LOOP_UNSUPPORTED;
    }
    if (plan->bind) loop_bind(side->rank);
    int status = loop_settle(side, loop_clamp(3 * plan->budget, 0, LOOP_SETTLE_MOST));
    while (*at != '\0' && status == 0) {
        char *end;
        size_t bytes = strtoull(at, &end, 10);
        if (end == at) return LOOP_MISTAKE;
        status = loop_size(side, plan, bytes);
        at = end + (*end == ',');
    }
    return status;
}

/* Reads the words; nonzero if they are not right. */
static inline int loop_read_plan(char **words, struct loop_plan *plan) {
    int op = 0, dtype = 0;

    while (op < LOOP_OPS && strcmp(words[0], loop_op_names[op]) != 0) op++;
    while (dtype < LOOP_DTYPES && strcmp(words[1], loop_dtypes[dtype].name) != 0) dtype++;
    if (op == LOOP_OPS || dtype == LOOP_DTYPES) return LOOP_MISTAKE;
    *plan = (struct loop_plan){
        .op = (enum loop_op)op, .dtype = &loop_dtypes[dtype], .sizes = words[2], .results = words[6]};
    plan->cover = strtoull(words[3], NULL, 10);
    plan->budget = strtod(words[4], NULL);
    plan->bind = words[5][0] == '1';
    return plan->budget > 0 ? 0 : LOOP_MISTAKE;
}

#endif
