/*
 * loop.h - the measuring loop of `muster bench`, the same for muster and for the MPIs; torch_ops.py does the
 * same in Python. Compiles without muster. loop_data.h describes the contents of the buffers.
 *
 * The ranks warm up with barriers. A measurement is one operation at one size: a call whose result is checked
 * completely, a few calls to estimate the time of one, batches of calls until the time budget is used up,
 * single calls that are timed one by one, and a last checked call. A batch begins with a barrier and takes as
 * long as its slowest rank. The results are the median of the batches and the 99th percentile of the single
 * calls on the rank where it is longest. Roots change from call to call, so that no root runs ahead. Before
 * each batch the ends of the last output are overwritten with a poison value; afterwards they must be right.
 * Wrong elements are counted and the measurement continues.
 *
 * In place, the smaller of the two buffers is this rank's part of the larger one. Results overwrite inputs,
 * so calls are timed with zeros, and only the checked calls have other values.
 *
 * Usage: PROGRAM OPERATION DTYPE SIZES COVER SECONDS BIND PLACE RESULTS. SIZES are bytes of the whole buffer,
 * separated by commas. COVER is 0 for one set of buffers, or the number of bytes of several sets that are
 * used in rotation. BIND is 1 to bind the rank to one of its processors. PLACE is 1 to work in place. The
 * program appends lines to the file RESULTS: "BYTES MEDIAN P99" in nanoseconds, "wrong BYTES ELEMENTS ..."
 * with the rank and the first wrong element, "unsupported ..." or "failed ...".
 */
#ifndef LOOP_H
#define LOOP_H

#include "loop_data.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LOOP_SETS_MOST = 256, LOOP_BATCHES_MOST = 201, LOOP_BATCHES_LEAST = 3 };
enum { LOOP_SINGLES_LEAST = 100, LOOP_SINGLES_MOST = 2000, LOOP_ARGS = 8 };
#define LOOP_WARM_UP_MOST 0.25 /* seconds */
enum { LOOP_MISTAKE = -1, LOOP_NO_MEMORY = -2, LOOP_UNSUPPORTED = -3 };

/* The functions of a backend. They return 0 or an error, with which loop_run ends. */
struct loop_backend {
    int rank, size;
    int result_first; /* a reduce_scatter in place writes to the begin of the buffer, as that of MPI */
    int (*call)(const struct loop_call *call);
    int (*barrier)(void);
    int (*max_over_ranks)(double *seconds); /* sets it to the maximum of all ranks */
    void *(*alloc)(size_t bytes);           /* page-aligned; NULL: out of memory */
    void (*release)(void *memory);
    loop_copy *copy; /* into and out of buffers */
};

struct loop_plan {
    enum loop_op op;
    const struct loop_dtype *dtype;
    const char *sizes, *results;
    size_t cover;
    double budget;
    int bind, in_place;
};

struct loop_state {
    const struct loop_backend *backend;
    const struct loop_plan *plan;
    struct loop_call call;
    struct loop_pattern values, sums;
    size_t bytes, in_count, out_count, in_stride, out_stride; /* counts of one set; strides in bytes */
    unsigned char *in, *out;                                  /* all sets */
    size_t in_shift, out_shift;                               /* bytes before the buffer in its set */
    int sets, set;
    size_t token; /* the element of the pattern that the next batch of broadcasts sends */
    size_t wrong; /* elements so far */
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
static inline void loop_append(const struct loop_plan *plan, const char *line) {
    FILE *file = fopen(plan->results, "a");
    if (!file) return;
    fprintf(file, "%s\n", line);
    fclose(file);
}

static inline const struct loop_pattern *loop_expected(const struct loop_state *s) {
    return loop_reduces(s->call.op) ? &s->sums : &s->values;
}

static inline void loop_record_wrong(struct loop_state *s, size_t wrong, size_t i, const void *at,
                                     const unsigned char *expected) {
    size_t element = s->plan->dtype->element;
    unsigned char got[LOOP_ELEMENT_MOST];
    s->backend->copy(got, at, element);
    if (s->wrong == 0)
        snprintf(s->first, sizeof s->first, "element %zu is 0x%llx, not 0x%llx", i, loop_bits(got, element),
                 loop_bits(expected, element));
    s->wrong += wrong;
}

/* A broadcast in place has no input: its output is one. */
static inline int loop_has_no_input(const struct loop_state *s) {
    return s->call.in_place && s->call.op == LOOP_BROADCAST;
}

/* Are input and output parts of one buffer? */
static inline int loop_shares(const struct loop_state *s) {
    return s->call.in_place && !loop_has_no_input(s);
}

/* Selects the current set of buffers. */
static inline void loop_select_set(struct loop_state *s) {
    s->call.in = s->in + (size_t)s->set * s->in_stride + s->in_shift;
    s->call.out = s->out + (size_t)s->set * s->out_stride + s->out_shift;
}

/* One call; then the next root and the next set. */
static inline int loop_step(struct loop_state *s) {
    loop_select_set(s);
    int status = s->backend->call(&s->call);
    if (++s->set == s->sets) s->set = 0;
    if (++s->call.root == s->backend->size) s->call.root = 0;
    return status;
}

static inline void loop_check_output(struct loop_state *s, const struct loop_call *c) {
    const struct loop_pattern *p = loop_expected(s);
    size_t length = 0, first = 0;
    for (size_t at = 0, k = 0; at < s->out_count; at += length, k++) {
        size_t from = loop_block_start(c, k, &length);
        const unsigned char *got = (const unsigned char *)c->out + at * p->element;
        size_t wrong = loop_differences(p, s->backend->copy, got, from, length, &first);
        if (wrong > 0)
            loop_record_wrong(s, wrong, at + first, got + first * p->element, loop_at(p, from + first));
    }
}

/* One call whose output is checked completely. */
static inline int loop_check_all(struct loop_state *s) {
    loop_select_set(s);
    struct loop_call c = s->call;
    size_t rank = (size_t)c.rank;
    if (loop_has_no_input(s))
        loop_write_pattern(&s->values, s->backend->copy, c.out, rank, s->out_count);
    else
        loop_poison_bytes(s->backend->copy, c.out, s->out_count * s->plan->dtype->element);
    if (loop_shares(s)) loop_write_pattern(&s->values, s->backend->copy, c.in, rank, s->in_count);
    int status = loop_step(s);
    if (status == 0 && loop_receives(&c)) loop_check_output(s, &c);
    return status;
}

/*
 * Overwrites the first and the last element of the output of the last of the next calls; *last gets that
 * call. For a broadcast, the root of the first call that uses this set of buffers gets a new element instead.
 */
static inline void loop_poison_ends(struct loop_state *s, int calls, struct loop_call *last) {
    size_t element = s->plan->dtype->element;
    int before = (calls - 1) % s->sets;
    unsigned char *out = s->out + (size_t)((s->set + calls - 1) % s->sets) * s->out_stride;
    *last = s->call;
    last->root = (s->call.root + calls - 1) % s->backend->size;
    last->out = out;
    if (s->out_count == 0 || loop_shares(s)) return;
    s->token++;
    for (size_t i = 0; i < 2; i++) {
        unsigned char *end = out + i * (s->out_count - 1) * element;
        if (loop_has_no_input(s) && (s->call.root + before) % s->backend->size == s->backend->rank)
            s->backend->copy(end, loop_at(&s->values, s->token), element);
        else
            loop_poison_bytes(s->backend->copy, end, element);
    }
}

static inline void loop_check_ends(struct loop_state *s, const struct loop_call *last) {
    const struct loop_pattern *p = loop_expected(s);
    size_t length, stride = s->out_count > 1 ? s->out_count - 1 : 1;
    if (s->out_count == 0 || loop_shares(s) || !loop_receives(last)) return;
    loop_block_start(last, 0, &length);
    for (size_t i = 0; i < s->out_count; i += stride) {
        size_t from =
            loop_has_no_input(s) ? s->token : loop_block_start(last, i / length, &length) + i % length;
        const unsigned char *at = (const unsigned char *)last->out + i * p->element;
        unsigned char got[LOOP_ELEMENT_MOST];
        s->backend->copy(got, at, p->element);
        if (memcmp(got, loop_at(p, from), p->element) != 0) loop_record_wrong(s, 1, i, at, loop_at(p, from));
    }
}

/* Seconds per call of a batch on the slowest rank. */
static inline int loop_batch(struct loop_state *s, int calls, double *seconds) {
    struct loop_call last;
    loop_poison_ends(s, calls, &last);
    int status = s->backend->barrier();
    double start = loop_now();
    for (int i = 0; i < calls && status == 0; i++) status = loop_step(s);
    double spent = loop_now() - start;
    if (status == 0) status = s->backend->max_over_ranks(&spent);
    *seconds = spent / calls;
    if (status == 0) loop_check_ends(s, &last);
    return status;
}

static inline int loop_compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The smallest sample that so many percent do not exceed. */
static inline double loop_percentile(struct loop_state *s, int n, int percent) {
    qsort(s->samples, (size_t)n, sizeof s->samples[0], loop_compare);
    return s->samples[(n * percent + 99) / 100 - 1];
}

/* The 99th percentile of single calls; each is the estimated time of one. */
static inline int loop_singles(struct loop_state *s, double each, double *p99) {
    int n = (int)loop_clamp(s->plan->budget / 4 / each, LOOP_SINGLES_LEAST, LOOP_SINGLES_MOST);
    int status = s->backend->barrier();
    double before = loop_now();
    for (int i = 0; i < n && status == 0; i++) {
        status = loop_step(s);
        double now = loop_now();
        s->samples[i] = now - before;
        before = now;
    }
    *p99 = loop_percentile(s, n, 99);
    return status == 0 ? s->backend->max_over_ranks(p99) : status;
}

static inline void loop_report(const struct loop_state *s, double median, double p99) {
    double scale = s->call.op == LOOP_SEND_RECV ? 0.5e9 : 1e9;
    char line[240];
    snprintf(line, sizeof line, "%zu %.1f %.1f", s->bytes, median * scale,
             (p99 > median ? p99 : median) * scale);
    if (s->backend->rank == 0) loop_append(s->plan, line);
}

/* All ranks get the same times and therefore make the same calls. */
static inline int loop_measure(struct loop_state *s) {
    double budget = s->plan->budget, each = 0, spent = 0;
    int n = 0, status = loop_batch(s, 1, &each);
    if (status == 0) status = loop_batch(s, (int)loop_clamp(budget / 5 / each, 1, 500), &each);
    int calls = (int)loop_clamp(budget / 50 / each, 1, 2000);
    if (calls > 1) calls = (calls + s->backend->size - 1) / s->backend->size * s->backend->size;
    while (status == 0 && n < LOOP_BATCHES_MOST && (n < LOOP_BATCHES_LEAST || spent < budget)) {
        status = loop_batch(s, calls, &s->samples[n]);
        spent += s->samples[n++] * calls;
    }
    if (status != 0) return status;
    double p99 = loop_percentile(s, n, 99), median = loop_percentile(s, n, 50);
    if (calls > 1) status = loop_singles(s, median, &p99); /* else the batches are single calls */
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
    long most = loop_reduces(c->op) ? dtype->exact / s->backend->size + 1 : dtype->exact + 1;
    c->count = bytes / dtype->element;
    c->block = c->count / (size_t)s->backend->size;
    s->bytes = c->count * dtype->element;
    s->in_count = c->op == LOOP_ALL_GATHER || c->op == LOOP_GATHER ? c->block
                  : loop_has_no_input(s)                           ? 0
                                                                   : c->count;
    s->out_count = c->op == LOOP_REDUCE_SCATTER || c->op == LOOP_SCATTER ? c->block : c->count;
    s->in_stride = loop_stride((loop_shares(s) ? c->count : s->in_count) * dtype->element);
    s->out_stride = loop_stride((loop_shares(s) ? c->count : s->out_count) * dtype->element);
    size_t set = s->in_stride + (loop_shares(s) ? 0 : s->out_stride),
           period = most < LOOP_PRIME ? (size_t)most : LOOP_PRIME;
    s->sets = 1;
    if (s->plan->cover > 0 && set > 0)
        s->sets = (int)loop_clamp((double)(s->plan->cover / set) + 1, 2, LOOP_SETS_MOST);
    size_t mine = loop_shares(s) ? (size_t)c->rank * c->block * dtype->element : 0;
    s->in_shift = c->op == LOOP_ALL_GATHER || c->op == LOOP_GATHER ? mine : 0;
    s->out_shift =
        c->op == LOOP_SCATTER || (c->op == LOOP_REDUCE_SCATTER && !s->backend->result_first) ? mine : 0;
    loop_make_pattern(&s->values, dtype, period, 1);
    loop_make_pattern(&s->sums, dtype, period, s->backend->size);
}

/*
 * All inputs before the outputs: alternating pages would alternate in physical memory, which slows some
 * copies.
 */
static inline void loop_fill(struct loop_state *s) {
    if (loop_shares(s)) return; /* each checked call writes its input */
    for (int set = 0; set < s->sets; set++)
        loop_write_pattern(&s->values, s->backend->copy, s->in + (size_t)set * s->in_stride,
                           (size_t)s->backend->rank, s->in_count);
    loop_poison_bytes(s->backend->copy, s->out, (size_t)s->sets * s->out_stride);
}

static inline int loop_all(struct loop_state *s) {
    loop_fill(s);
    int status = loop_check_all(s);
    if (status == 0) status = loop_check_all(s); /* another root */
    if (loop_shares(s)) loop_set_bytes(s->backend->copy, s->out, (size_t)s->sets * s->out_stride, 0);
    if (status == 0) status = loop_measure(s);
    return status == 0 ? loop_check_all(s) : status;
}

static inline int loop_size(const struct loop_backend *backend, const struct loop_plan *plan, size_t bytes) {
    static struct loop_state state;
    struct loop_state *s = &state;
    char line[240];
    *s = (struct loop_state){.backend = backend, .plan = plan};
    s->call = (struct loop_call){
        .op = plan->op, .rank = backend->rank, .size = backend->size, .in_place = plan->in_place};
    loop_set_up(s, bytes);
    s->in = backend->alloc((size_t)s->sets * s->in_stride + 4096);
    s->out = loop_shares(s) ? s->in : backend->alloc((size_t)s->sets * s->out_stride + 4096);
    int status = s->in && s->out ? loop_all(s) : LOOP_NO_MEMORY;
    if (status == LOOP_NO_MEMORY) loop_append(plan, "failed out of memory for the buffers");
    snprintf(line, sizeof line, "wrong %zu %zu rank %d of %d: %.119s", s->bytes, s->wrong, backend->rank,
             backend->size, s->first);
    if (s->wrong > 0) loop_append(plan, line);
    if (s->in) backend->release(s->in);
    if (s->out && !loop_shares(s)) backend->release(s->out);
    return status;
}

/* Binds the process to one of its processors, a different one for each rank if there are enough. */
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
 * New processes may share a processor while another one is idle, until the scheduler spreads them. Without a
 * warm-up that would slow down the first size alone.
 */
static inline int loop_warm_up(const struct loop_backend *backend, double seconds) {
    double start = loop_now(), spent = 0;
    int status = 0;
    while (status == 0 && spent < seconds) {
        for (int i = 0; i < 20 && status == 0; i++) status = backend->barrier();
        spent = loop_now() - start;
        if (status == 0) status = backend->max_over_ranks(&spent);
    }
    return status;
}

static inline int loop_run(const struct loop_backend *backend, const struct loop_plan *plan) {
    const char *at = plan->sizes;
    if (loop_reduces(plan->op) && backend->size > plan->dtype->exact) {
        if (backend->rank == 0)
            loop_append(plan, "unsupported the sum over all ranks is not exact in this dtype");
        return LOOP_UNSUPPORTED;
    }
    if (plan->bind) loop_bind(backend->rank);
    int status = loop_warm_up(backend, loop_clamp(3 * plan->budget, 0, LOOP_WARM_UP_MOST));
    while (*at != '\0' && status == 0) {
        char *end;
        size_t bytes = strtoull(at, &end, 10);
        if (end == at) return LOOP_MISTAKE;
        status = loop_size(backend, plan, bytes);
        at = end + (*end == ',');
    }
    return status;
}

/* Parses the arguments; nonzero if they are invalid. */
static inline int loop_read_plan(char **args, struct loop_plan *plan) {
    int op = 0, dtype = 0;
    while (op < LOOP_OPS && strcmp(args[0], loop_op_names[op]) != 0) op++;
    while (dtype < LOOP_DTYPES && strcmp(args[1], loop_dtypes[dtype].name) != 0) dtype++;
    if (op == LOOP_OPS || dtype == LOOP_DTYPES) return LOOP_MISTAKE;
    *plan = (struct loop_plan){
        .op = (enum loop_op)op, .dtype = &loop_dtypes[dtype], .sizes = args[2], .results = args[7]};
    plan->cover = strtoull(args[3], NULL, 10);
    plan->budget = strtod(args[4], NULL);
    plan->bind = args[5][0] == '1';
    plan->in_place = args[6][0] == '1';
    return plan->budget > 0 ? 0 : LOOP_MISTAKE;
}

#endif
