/*
 * coll_loop.h - how `muster bench coll` measures: the loop of all sides that are written in C, so that it is the same
 * for muster and for the MPIs. torch_coll.py follows it in Python.
 *
 * First the ranks pass barriers for a while. One measurement is one operation at one size: a call whose result is
 * checked element by element, a few calls to see how long one takes, then batches of calls until the budget is spent,
 * then such a check again. A batch begins at a barrier and takes as long as its slowest rank; the median of the batches
 * counts. Roots change from call to call, so that no root runs ahead of the others. Before each batch the ends of the
 * output that its last call writes are spoilt, and afterwards they must be right.
 *
 * A program is run as PROGRAM OPERATION SIZES COVER SECONDS BIND RESULTS: sizes in bytes of the whole buffer, separated
 * by commas; COVER 0 for one set of buffers, else sets that take turns and have so many bytes in all on this rank; BIND
 * 1 to stay on one of the processors that the rank may use. What it finds is appended to the file RESULTS, a line each:
 * "BYTES NANOSECONDS", or "wrong ..." and who found what.
 */
#ifndef COLL_LOOP_H
#define COLL_LOOP_H

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum loop_op {
    LOOP_ALL_REDUCE,
    LOOP_ALL_GATHER,
    LOOP_REDUCE_SCATTER,
    LOOP_BROADCAST,
    LOOP_ALL_TO_ALL,
    LOOP_SEND_RECV, /* a round trip between the ranks 2i and 2i + 1; half of it counts */
    LOOP_BARRIER,
    LOOP_OPS,
};

enum { LOOP_SETS_MOST = 256, LOOP_BATCHES_MOST = 201, LOOP_BATCHES_LEAST = 3, LOOP_PRIME = 61 };
#define LOOP_SETTLE_MOST 0.25 /* seconds */
enum { LOOP_WRONG = -1, LOOP_NO_MEMORY = -2 };

struct loop_call {
    enum loop_op op;
    int rank, size, root;
    size_t count, block; /* elements in all, and of one rank */
    float *in, *out;     /* broadcast: out alone */
};

/* What a side brings. Functions return 0, or what loop_run shall end with. */
struct loop_side {
    int rank, size;
    int (*call)(const struct loop_call *call);
    int (*barrier)(void);
    int (*longest)(double *seconds); /* makes it the most of all ranks */
    void *(*alloc)(size_t bytes);    /* aligned to pages; NULL if there is no memory */
    void (*release)(void *memory);
};

struct loop_plan {
    enum loop_op op;
    const char *sizes, *results;
    size_t cover;
    double budget;
    int bind;
};

struct loop_state {
    const struct loop_side *side;
    const struct loop_plan *plan;
    struct loop_call call;
    size_t in_count, out_count, in_stride, out_stride; /* of one set, in elements */
    float *in, *out;                                   /* all sets */
    int sets, set;
    float token; /* what the next batch of broadcasts carries */
    double samples[LOOP_BATCHES_MOST];
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

/* Inputs. Small whole numbers, so that sums are exact in any order. */
static inline float loop_value(int rank, size_t i) {
    return (float)(rank + 1 + (int)(i % LOOP_PRIME));
}

/* The sum of that over all ranks. */
static inline float loop_sum(int size, size_t i) {
    return (float)(size * (size + 1) / 2 + size * (int)(i % LOOP_PRIME));
}

static inline float loop_expected(const struct loop_call *c, size_t i) {
    size_t mine = (size_t)c->rank * c->block;
    int peer = c->rank ^ 1;

    switch (c->op) {
    case LOOP_REDUCE_SCATTER:
        return loop_sum(c->size, i + mine);
    case LOOP_ALL_REDUCE:
        return loop_sum(c->size, i);
    case LOOP_ALL_GATHER:
        return loop_value((int)(i / c->block), i % c->block);
    case LOOP_ALL_TO_ALL:
        return loop_value((int)(i / c->block), mine + i % c->block);
    case LOOP_SEND_RECV:
        return peer < c->size ? loop_value(peer, i) : -1;
    default:
        return loop_value(c->root, i);
    }
}

static inline int loop_wrong(const struct loop_state *s, size_t i, float got, float expected) {
    char line[160];
    snprintf(line, sizeof line, "wrong rank %d of %d: %zu bytes: element %zu is %g, not %g", s->side->rank,
             s->side->size, s->call.count * sizeof(float), i, (double)got, (double)expected);
    loop_say(s->plan, line);
    return LOOP_WRONG;
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

/* One call, of whose output every element is looked at. */
static inline int loop_check_all(struct loop_state *s) {
    struct loop_call c;

    loop_aim(s);
    for (size_t i = 0; i < s->out_count; i++)
        s->call.out[i] = s->call.op == LOOP_BROADCAST ? loop_value(s->side->rank, i) : -1;
    c = s->call;
    int status = loop_step(s);
    for (size_t i = 0; i < s->out_count && status == 0; i++) {
        float expected = loop_expected(&c, i);
        if (c.out[i] != expected) status = loop_wrong(s, i, c.out[i], expected);
    }
    return status;
}

/*
 * Spoils the first and the last element of the output that the last of the next calls writes; returns where it is. What
 * is broadcast comes from the first call that uses this set of buffers: its root gets a token that was not there before.
 */
static inline float *loop_spoil(struct loop_state *s, int calls) {
    int before = (calls - 1) % s->sets;
    float *out = s->out + (size_t)((s->set + calls - 1) % s->sets) * s->out_stride;
    float with = -1;

    if (s->out_count == 0) return out;
    s->token += 1;
    if (s->call.op == LOOP_BROADCAST && (s->call.root + before) % s->side->size == s->side->rank)
        with = s->token;
    out[0] = out[s->out_count - 1] = with;
    return out;
}

static inline int loop_check_ends(const struct loop_state *s, const float *out) {
    size_t last = s->out_count - 1;

    if (s->out_count == 0) return 0;
    for (size_t i = 0; i <= last; i += last > 0 ? last : 1) {
        float expected = s->call.op == LOOP_BROADCAST ? s->token : loop_expected(&s->call, i);
        if (out[i] != expected) return loop_wrong(s, i, out[i], expected);
    }
    return 0;
}

/* Seconds that one of so many calls takes on the slowest rank. */
static inline int loop_batch(struct loop_state *s, int calls, double *seconds) {
    float *out = loop_spoil(s, calls);
    int status = s->side->barrier();
    double start = loop_now();

    for (int i = 0; i < calls && status == 0; i++) status = loop_step(s);
    double spent = loop_now() - start;
    if (status == 0) status = s->side->longest(&spent);
    *seconds = spent / calls;
    return status != 0 ? status : loop_check_ends(s, out);
}

static inline int loop_compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline void loop_report(struct loop_state *s, int n) {
    double scale = s->call.op == LOOP_SEND_RECV ? 0.5e9 : 1e9;
    char line[160];

    if (s->side->rank != 0) return;
    qsort(s->samples, (size_t)n, sizeof s->samples[0], loop_compare);
    snprintf(line, sizeof line, "%zu %.1f", s->call.count * sizeof(float), s->samples[n / 2] * scale);
    loop_say(s->plan, line);
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
    if (status == 0) loop_report(s, n);
    return status;
}

static inline size_t loop_stride(size_t count) {
    size_t unit = (count * sizeof(float) < 4096 ? 64 : 4096) / sizeof(float);
    return (count + unit - 1) / unit * unit;
}

static inline void loop_set_up(struct loop_state *s, size_t bytes) {
    struct loop_call *c = &s->call;

    c->count = bytes / sizeof(float);
    c->block = c->count / (size_t)s->side->size;
    s->in_count = c->op == LOOP_ALL_GATHER ? c->block : c->op == LOOP_BROADCAST ? 0 : c->count;
    s->out_count = c->op == LOOP_REDUCE_SCATTER ? c->block : c->count;
    s->in_stride = loop_stride(s->in_count);
    s->out_stride = loop_stride(s->out_count);
    size_t set = (s->in_stride + s->out_stride) * sizeof(float);
    s->sets = 1;
    if (s->plan->cover > 0 && set > 0)
        s->sets = (int)loop_clamp((double)(s->plan->cover / set) + 1, 2, LOOP_SETS_MOST);
}

/* The inputs first, then the outputs: pages that are touched in turn lie in turn in memory, which slows some copies. */
static inline void loop_fill(struct loop_state *s) {
    for (int set = 0; set < s->sets; set++)
        for (size_t i = 0; i < s->in_count; i++)
            s->in[(size_t)set * s->in_stride + i] = loop_value(s->side->rank, i);
    for (size_t i = 0; i < (size_t)s->sets * s->out_stride; i++) s->out[i] = -1;
}

static inline int loop_size(const struct loop_side *side, const struct loop_plan *plan, size_t bytes) {
    static struct loop_state state;
    struct loop_state *s = &state;

    *s = (struct loop_state){.side = side, .plan = plan};
    s->call = (struct loop_call){.op = plan->op, .rank = side->rank, .size = side->size};
    loop_set_up(s, bytes);
    s->in = side->alloc((size_t)s->sets * s->in_stride * sizeof(float) + 4096);
    s->out = side->alloc((size_t)s->sets * s->out_stride * sizeof(float) + 4096);
    int status = s->in != NULL && s->out != NULL ? 0 : LOOP_NO_MEMORY;
    if (status == 0) {
        loop_fill(s);
        status = loop_check_all(s);
        if (status == 0 && plan->op == LOOP_BROADCAST) status = loop_check_all(s); /* another root */
        if (status == 0) status = loop_measure(s);
        if (status == 0) status = loop_check_all(s);
    } else {
        loop_say(plan, "failed no memory for the buffers");
    }
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

    if (plan->bind) loop_bind(side->rank);
    int status = loop_settle(side, loop_clamp(3 * plan->budget, 0, LOOP_SETTLE_MOST));
    while (*at != '\0' && status == 0) {
        char *end;
        size_t bytes = strtoull(at, &end, 10);
        if (end == at) return LOOP_WRONG;
        status = loop_size(side, plan, bytes);
        at = end + (*end == ',');
    }
    return status;
}

/* Reads the six words; nonzero if they are not right. */
static inline int loop_read_plan(char **words, struct loop_plan *plan) {
    static const char *const names[LOOP_OPS] = {
        "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv", "barrier",
    };
    int op = 0;

    while (op < LOOP_OPS && strcmp(words[0], names[op]) != 0) op++;
    *plan = (struct loop_plan){.op = (enum loop_op)op, .sizes = words[1], .results = words[5]};
    plan->cover = strtoull(words[2], NULL, 10);
    plan->budget = strtod(words[3], NULL);
    plan->bind = words[4][0] == '1';
    return op == LOOP_OPS || !(plan->budget > 0);
}

#endif
