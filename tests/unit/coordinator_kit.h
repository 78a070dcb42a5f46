/*
 * coordinator_kit.h - a coordinator that a test drives by hand: nodes that send the notices a test wants, a
 * clock that the test moves, and the orders as the lines that the nodes would read.
 */
#ifndef TESTS_COORDINATOR_KIT_H
#define TESTS_COORDINATOR_KIT_H

#include "../tools/muster/cli/options.c"
#include "../tools/muster/cli/text.c"
#include "../tools/muster/run/failure/survivors.c"
#include "../tools/muster/run/nodes/coordinator.c"
#include "../tools/muster/run/nodes/coordinator_nodes.c"
#include "../tools/muster/run/nodes/node_msg.c"

#include "harness.h"

enum { ORDERS_MOST = 64, TICKS_MOST = 1000, EACH = 2 }; /* EACH: ranks of a node */

/* The state of every test; opened by meet, freed by part. */
static struct {
    struct coordinator *coordinator;
    struct coordinator_options options;
    double now;
    char *orders[ORDERS_MOST];
    int n_orders, n_read;
    char said[65536], reported[4096];
} job;

static void on_order(void *arg, const struct order *given) {
    (void)arg;
    assert_true(job.n_orders < ORDERS_MOST);
    char *line = order_write(given);
    assert_non_null(line);
    line[strcspn(line, "\n")] = '\0';
    job.orders[job.n_orders++] = line;
}

static void append(char *to, size_t size, const char *text) {
    size_t used = strlen(to);
    snprintf(to + used, size - used, "%s\n", text);
}

static void on_say(void *arg, const char *text) {
    (void)arg;
    append(job.said, sizeof job.said, text);
}

static void on_report(void *arg, const char *text) {
    (void)arg;
    append(job.reported, sizeof job.reported, text);
}

/* The coordinator waits 60 s for min nodes, 10 s for more, and gives a node 35 s to end its ranks. */
static inline void meet(int min, int max, int restarts) {
    job.options = (struct coordinator_options){.min = min,
                                               .max = max,
                                               .max_restarts = restarts,
                                               .join_seconds = 60,
                                               .last_call_seconds = 10,
                                               .stop_seconds = 35,
                                               .progress_seconds = 1e6,
                                               .hosts = job.options.hosts,
                                               .order = on_order,
                                               .say = on_say,
                                               .report = on_report};
    job.now = 1000;
    job.said[0] = job.reported[0] = '\0';
    job.n_orders = job.n_read = 0;
    job.coordinator = coordinator_open(&job.options, job.now);
    assert_non_null(job.coordinator);
}

/* The test must have expected all orders. */
static inline void part(void) {
    if (job.n_read < job.n_orders) fail_msg("nobody expected '%s'", job.orders[job.n_read]);
    coordinator_free(job.coordinator);
    for (int i = 0; i < job.n_orders; i++) free(job.orders[i]);
    job.options.hosts = NULL;
}

static inline void nothing_is_ordered(void) {
    if (job.n_read < job.n_orders) fail_msg("nobody expected '%s'", job.orders[job.n_read]);
}

/* The next order; where want ends with "...", its beginning. */
static inline void ordered(const char *want) {
    size_t len = strlen(want);

    if (job.n_read == job.n_orders) fail_msg("nothing was ordered, not even '%s'", want);
    const char *line = job.orders[job.n_read++];
    if (len > 3 && strcmp(want + len - 3, "...") == 0 && strncmp(line, want, len - 3) == 0) return;
    assert_string_equal(line, want);
}

static inline void said(const char *text) {
    if (strstr(job.said, text) == NULL) fail_msg("'%s' was not said, but: %s", text, job.said);
}

/* A node sends a notice, through its text form. */
static void hear(struct notice notice) {
    struct notice heard;
    char *line = notice_write(&notice);

    assert_non_null(line);
    line[strcspn(line, "\n")] = '\0';
    assert_true(notice_read(line, &heard));
    coordinator_handle(job.coordinator, &heard, job.now);
    free(line);
}

static inline void joins_with(int ticket, int node_rank, int min, int max) {
    char host[16];

    snprintf(host, sizeof host, "h%d", ticket);
    hear((struct notice){.kind = NOTICE_JOIN,
                         .ticket = ticket,
                         .node_rank = node_rank,
                         .n = EACH,
                         .min = min,
                         .max = max,
                         .pid = 100 + ticket,
                         .text = host});
}
static inline void joins_as(int ticket, int node_rank) {
    joins_with(ticket, node_rank, job.options.min, job.options.max);
}
static inline void joins(int ticket) {
    joins_as(ticket, -1);
}
static inline void join_up_to(int n) {
    for (int i = 0; i < n; i++) joins(i);
}
static inline void fails(int ticket, int generation) {
    hear((struct notice){
        .kind = NOTICE_FAILED, .ticket = ticket, .generation = generation, .text = "a rank failed"});
}

/* Its rank failed with status 10 + rank and blames another; the report names the rank. */
static inline void stops_blaming(int ticket, int generation, int rank, int culprit, bool final) {
    char report[32];

    snprintf(report, sizeof report, "report of %d", rank);
    hear((struct notice){.kind = NOTICE_STOPPED,
                         .ticket = ticket,
                         .generation = generation,
                         .rank = rank,
                         .status = rank < 0 ? 0 : 10 + rank,
                         .culprit = culprit,
                         .final = final,
                         .text = rank < 0 ? "" : report});
}
static inline void stops_failed(int ticket, int generation, int rank) {
    stops_blaming(ticket, generation, rank, -1, false);
}
static inline void stops(int ticket, int generation) {
    stops_failed(ticket, generation, -1);
}
static inline void leaves(int ticket) {
    hear((struct notice){.kind = NOTICE_LEAVE, .ticket = ticket, .signal = SIGTERM});
}
static inline void dies(int ticket) {
    hear((struct notice){.kind = NOTICE_DIED, .ticket = ticket});
}
static inline void interrupt(int signal) {
    coordinator_interrupt(job.coordinator, signal, job.now);
}

/* Moves the clock and calls the coordinator when it is due, which must not be all the time. */
static inline void pass(double seconds) {
    double end = job.now + seconds;
    int ticks = 0;

    for (; coordinator_due(job.coordinator) <= end; ticks++) {
        assert_true(ticks < TICKS_MOST);
        if (coordinator_due(job.coordinator) > job.now) job.now = coordinator_due(job.coordinator);
        coordinator_tick(job.coordinator, job.now);
    }
    job.now = end;
}

#endif
