/*
 * probes.c - receives with any tag, probes and send_recv, between all ranks of a world.
 *
 *   probes calls                each call in each form, with messages of all sizes
 *   probes threads N ROUNDS     N threads of each rank probe and receive on one group
 *   probes fail HOW MS          rank 0 waits so long in a call that cannot end: probe, any, iprobe, send_recv
 *                               or cancel; then each rank waits for the end of standard input
 *
 * "calls" and "threads" print "done" on each rank. "fail" writes one line for each step, as
 * tests/multi/world.c does.
 */
#include "step_report.h"

#include <muster/muster.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIMEOUT_MS = 120000, LARGE = 3 << 20, THREADS_MAX = 16, ROUNDS = 30 };
#define LATER .timeout_ms = TIMEOUT_MS

static int me, size, left, right;
static unsigned char *in, *out; /* LARGE bytes */

static void check_at(int line, mst_status st) {
    if (st == MST_OK) return;
    fprintf(stderr, "probes.c:%d: rank %d: %s: %s\n", line, me, mst_status_name(st), mst_error());
    _exit(1);
}
#define CHECK(call) check_at(__LINE__, call)

static void require_at(int line, bool condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "probes.c:%d: rank %d: not true: %s\n", line, me, what);
    _exit(1);
}
#define REQUIRE(condition) require_at(__LINE__, condition, #condition)

static bool is(const mst_message *m, int sender, int tag, size_t bytes) {
    return m->sender == sender && m->tag == tag && m->bytes == bytes;
}

static unsigned char byte_at(int from, int tag, size_t i) {
    return (unsigned char)((size_t)from * 31 + (size_t)tag * 7 + i * 13 + i / 251);
}

static void fill(unsigned char *data, size_t n, int tag) {
    for (size_t i = 0; i < n; i++) data[i] = byte_at(me, tag, i);
}

static bool holds(const unsigned char *data, size_t n, int from, int tag) {
    for (size_t i = 0; i < n; i++)
        if (data[i] != byte_at(from, tag, i)) return false;
    return true;
}

/* A send to the right neighbour; a single rank sends to itself. */
static mst_work *begin_send(size_t n, int tag) {
    mst_work *work = NULL;
    CHECK(mst_isend(in, n, MST_U8, right, .tag = tag, .work = &work, LATER));
    return work;
}

/* Messages arrive in the order of sending, whatever their tags are. */
static void receive_any_tag(void) {
    static const int tags[] = {5, 0, 9, 5, 1 << 14, 2};
    enum { N = sizeof tags / sizeof *tags };
    mst_work *works[N];
    int sent[N], got, sender;
    mst_message m;
    for (int i = 0; i < N; i++) {
        sent[i] = 100 * me + i;
        CHECK(mst_isend(&sent[i], 1, MST_I32, right, .tag = tags[i], .work = &works[i], LATER));
    }
    for (int i = 0; i < N; i++) {
        int src = i % 2 ? MST_ANY_SOURCE : left;
        CHECK(mst_recv(&got, 1, MST_I32, src, .tag = MST_ANY_TAG, .sender = &sender, .message = &m, LATER));
        REQUIRE(got == 100 * left + i && sender == left && is(&m, left, tags[i], sizeof got));
    }
    CHECK(mst_wait_all(works, N));
}

/* A message matches the first posted receive that fits; with a batch, too. */
static void match_in_order(void) {
    int got[4] = {0}, sent[] = {70, 71, 80, 72};
    mst_work *works[4], *sends[4];
    mst_message m[3];
    int any = MST_ANY_TAG, who = MST_ANY_SOURCE;
    CHECK(mst_irecv(&got[0], 1, MST_I32, left, .tag = any, .message = &m[0], .work = &works[0], LATER));
    CHECK(mst_irecv(&got[1], 1, MST_I32, left, .tag = 7, .message = &m[1], .work = &works[1], LATER));
    CHECK(mst_irecv(&got[2], 1, MST_I32, who, .tag = any, .message = &m[2], .work = &works[2], LATER));
    mst_p2p last = {.buf = &got[3], .count = 1, .dtype = MST_I32, .peer = who, .tag = any};
    CHECK(mst_batch_isend_irecv(&last, 1, &works[3], LATER));
    CHECK(mst_barrier(LATER));
    for (int i = 0; i < 4; i++)
        CHECK(mst_isend(&sent[i], 1, MST_I32, right, .tag = sent[i] / 10, .work = &sends[i], LATER));
    CHECK(mst_wait_all(works, 4));
    CHECK(mst_wait_all(sends, 4));
    for (int i = 0; i < 4; i++) REQUIRE(got[i] == sent[i]);
    for (int i = 0; i < 3; i++) REQUIRE(is(&m[i], left, sent[i] / 10, sizeof sent[i]));
}

/* The messages of each rank keep their order. */
static void gather_any(void) {
    enum { EACH = 5 };
    int next[64] = {0}, value;
    if (me != 0) {
        for (int i = 0; i < EACH; i++) CHECK(mst_send(&i, 1, MST_I32, 0, .tag = (i * 7) % 5, LATER));
    } else {
        for (int i = 0; i < EACH * (size - 1); i++) {
            mst_message m;
            if (i % 3 == 0) CHECK(mst_probe(MST_ANY_SOURCE, &m, .tag = MST_ANY_TAG, LATER));
            if (i % 3 == 0)
                CHECK(mst_recv(&value, 1, MST_I32, m.sender, .tag = m.tag, LATER));
            else
                CHECK(mst_recv(&value, 1, MST_I32, MST_ANY_SOURCE, .tag = MST_ANY_TAG, .message = &m, LATER));
            REQUIRE(m.sender > 0 && m.sender < size && value == next[m.sender]++ && m.tag == (value * 7) % 5);
        }
    }
    CHECK(mst_barrier(LATER));
}

/* Probe, allocate, receive. The probe waits, or is repeated, and does not take the message. */
static void probe_size(size_t n, int tag, bool wait) {
    fill(in, n, tag);
    mst_work *work = begin_send(n, tag);
    mst_message m = {0}, again, got;
    bool found = false;
    int src = tag % 2 ? left : MST_ANY_SOURCE, which = tag % 3 ? MST_ANY_TAG : tag;
    while (!wait && !found) CHECK(mst_iprobe(src, &found, &m, .tag = which));
    if (wait) CHECK(mst_probe(src, &m, .tag = which, LATER));
    REQUIRE(is(&m, left, tag, n));
    CHECK(mst_iprobe(left, &found, &again, .tag = tag));
    REQUIRE(found && is(&again, left, tag, n));
    CHECK(mst_probe(left, NULL, .tag = tag));
    unsigned char *buffer = malloc(m.bytes + 1);
    REQUIRE(buffer != NULL);
    buffer[m.bytes] = 0xEE;
    CHECK(mst_recv(buffer, m.bytes, MST_U8, m.sender, .tag = m.tag, .message = &got, LATER));
    REQUIRE(is(&got, left, tag, n) && holds(buffer, n, left, tag) && buffer[n] == 0xEE);
    free(buffer);
    CHECK(mst_wait(work));
    CHECK(mst_barrier(LATER));
    CHECK(mst_iprobe(MST_ANY_SOURCE, &found, NULL, .tag = MST_ANY_TAG));
    REQUIRE(!found);
    CHECK(mst_barrier(LATER));
}

static void probe_sizes(void) {
    static const size_t sizes[] = {0, 1, 4, 40, 5000, 16384, 100000, LARGE};
    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++) {
        probe_size(sizes[i], 2 * i, i % 2);
        probe_size(sizes[i], 2 * i + 1, !(i % 2));
    }
}

/* Only messages that match are found; without a match an iprobe fails in no way. */
static void probe_tags(void) {
    mst_work *works[2];
    mst_message m;
    bool found = true;
    works[0] = begin_send(3, 11);
    works[1] = begin_send(4, 12);
    CHECK(mst_probe(left, &m, .tag = 12, LATER));
    REQUIRE(is(&m, left, 12, 4));
    CHECK(mst_probe(MST_ANY_SOURCE, &m, .tag = MST_ANY_TAG, LATER));
    REQUIRE(is(&m, left, 11, 3));
    CHECK(mst_iprobe(left, &found, &m, .tag = 13));
    REQUIRE(!found && is(&m, left, 11, 3));
    for (int tag = 12; tag > 10; tag--)
        CHECK(mst_recv(out, (size_t)tag - 8, MST_U8, left, .tag = tag, LATER));
    CHECK(mst_wait_all(works, 2));
}

/* A posted receive gets the message; a probe does not see it. */
static void probe_after_receive(void) {
    mst_work *receive, *send;
    bool found = true, done = false;
    CHECK(mst_irecv(out, 8, MST_U8, MST_ANY_SOURCE, .tag = MST_ANY_TAG, .work = &receive, LATER));
    CHECK(mst_barrier(LATER));
    send = begin_send(8, 3);
    while (!done) {
        CHECK(mst_iprobe(MST_ANY_SOURCE, &found, NULL, .tag = MST_ANY_TAG));
        REQUIRE(!found);
        CHECK(mst_test(receive, &done));
    }
    CHECK(mst_wait(receive));
    CHECK(mst_wait(send));
}

/* Byte strings have a length, too. Two ranks, since sends of byte strings block. */
static void probe_bytes(void) {
    static const size_t lengths[] = {0, 7, 30000, LARGE};
    int partner = me ^ 1;
    if (partner >= size) return;
    for (int i = 0; i < 4; i++) {
        mst_message m, got;
        mst_bytes bytes;
        fill(in, lengths[i], i);
        if (me % 2 == 0) CHECK(mst_send_bytes(in, lengths[i], partner, .tag = i, LATER));
        CHECK(mst_probe(partner, &m, .tag = MST_ANY_TAG, LATER));
        REQUIRE(is(&m, partner, i, lengths[i]));
        CHECK(mst_recv_bytes(&bytes, MST_ANY_SOURCE, .tag = MST_ANY_TAG, .message = &got, LATER));
        REQUIRE(is(&got, partner, i, lengths[i]) && bytes.len == lengths[i]);
        REQUIRE(holds((unsigned char *)bytes.data, bytes.len, partner, i));
        mst_bytes_free(&bytes);
        if (me % 2) CHECK(mst_send_bytes(in, lengths[i], partner, .tag = i, LATER));
    }
}

/* Collectives, of which some are composed of messages, match neither a receive nor a probe. */
static void collectives_are_not_messages(void) {
    size_t counts[64], total = 0;
    int sums[64] = {0}, mine[64] = {0}, got = 0, sent = 9;
    mst_work *receive, *send;
    bool found;
    for (int r = 0; r < size; r++) total += counts[r] = 1 + (size_t)((me + r) % 2);
    REQUIRE(total <= 64);
    CHECK(mst_irecv(&got, 1, MST_I32, MST_ANY_SOURCE, .tag = MST_ANY_TAG, .work = &receive, LATER));
    for (int i = 0; i < 3; i++) {
        CHECK(
            mst_all_to_all_single(sums, mine, 0, MST_I32, .in_splits = counts, .out_splits = counts, LATER));
        CHECK(mst_all_reduce(sums, 8, MST_I32, LATER));
        CHECK(mst_gather(sums, mine, 1, MST_I32, .root = size - 1, LATER));
        CHECK(mst_scatter(mine, sums, 1, MST_I32, .root = 0, LATER));
        CHECK(mst_broadcast(mine, 1, MST_I32, LATER));
        CHECK(mst_iprobe(MST_ANY_SOURCE, &found, NULL, .tag = MST_ANY_TAG));
        REQUIRE(!found);
    }
    CHECK(mst_barrier(LATER)); /* a message that came earlier would have been found */
    CHECK(mst_isend(&sent, 1, MST_I32, right, .tag = 4, .work = &send, LATER));
    CHECK(mst_wait(receive));
    CHECK(mst_wait(send));
    REQUIRE(got == sent);
}

/* All ranks at the same time, at each distance; 0 is the rank itself. */
static void send_recv_around(size_t n) {
    for (int round = 0; round < size; round++) {
        int to = (me + round) % size, from = (me + size - round) % size, sender = -7;
        size_t sent = n + (size_t)me, expected = n + (size_t)from;
        mst_message m;
        fill(in, sent, round);
        memset(out, 0, expected + 1);
        CHECK(mst_send_recv(out, expected, round % 2 ? MST_ANY_SOURCE : from, in, sent, to, MST_U8,
                            .tag = round, .sender = &sender, .message = &m, LATER));
        REQUIRE(sender == from && is(&m, from, round, expected) && holds(out, expected, from, round));
        REQUIRE(out[expected] == 0);
    }
    CHECK(mst_barrier(LATER));
}

/* A line of ranks: its ends have one neighbour. */
static void send_recv_ends(void) {
    int above = me + 1 < size ? me + 1 : MST_NO_RANK, below = me > 0 ? me - 1 : MST_NO_RANK, got = -1,
        sender = -7;
    mst_message m;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(mst_send_recv(&got, 1, below, &me, 1, above, MST_I32, .sender = &sender, .message = &m, LATER));
        REQUIRE(got == (me > 0 ? me - 1 : -1) && sender == below);
        REQUIRE(me > 0 ? is(&m, me - 1, 0, sizeof got) : is(&m, MST_NO_RANK, MST_ANY_TAG, 0));
        CHECK(mst_send_recv(NULL, 1, MST_NO_RANK, NULL, 1, MST_NO_RANK, MST_I32));
    }
    CHECK(mst_barrier(LATER));
}

/* Different counts are an error, in a group of its own: some backends end it then. */
static void send_recv_mismatch(void) {
    mst_group *group;
    int all[64];
    for (int r = 0; r < size; r++) all[r] = r;
    CHECK(mst_new_group(all, size, &group));
    mst_status st = mst_send_recv(out, 5, left, in, 4, right, MST_U8, .group = group, LATER);
    REQUIRE(st == MST_ERR_MISMATCH);
    REQUIRE(strstr(mst_error(), "4") && strstr(mst_error(), "5"));
    CHECK(mst_barrier(LATER));
    mst_destroy_process_group(group);
}

static void run_calls(void) {
    static const size_t sizes[] = {0, 4, 100, 20000, LARGE - 64};
    for (int i = 0; i < 3; i++) {
        receive_any_tag();
        CHECK(mst_barrier(LATER));
        match_in_order();
        CHECK(mst_barrier(LATER));
    }
    gather_any();
    probe_sizes();
    probe_tags();
    CHECK(mst_barrier(LATER));
    probe_after_receive();
    CHECK(mst_barrier(LATER));
    probe_bytes();
    CHECK(mst_barrier(LATER));
    collectives_are_not_messages();
    CHECK(mst_barrier(LATER));
    for (int i = 0; i < 5; i++) send_recv_around(sizes[i]);
    send_recv_ends();
    send_recv_mismatch();
}

static int rounds;

/* Thread t of each rank sends to thread t of the right neighbour, which probes for it. */
static void *run_thread(void *context) {
    int tag = (int)(intptr_t)context;
    enum { N = 3000 };
    unsigned char *sent = malloc(N), *got = malloc(N);
    REQUIRE(sent && got);
    for (int i = 0; i < rounds; i++) {
        size_t n = (size_t)(i * 397) % N;
        mst_message m;
        mst_work *work;
        bool found = false;
        for (size_t k = 0; k < n; k++) sent[k] = byte_at(me, tag, k + (size_t)i);
        CHECK(mst_isend(sent, n, MST_U8, right, .tag = tag, .work = &work, LATER));
        while (i % 2 && !found) CHECK(mst_iprobe(left, &found, &m, .tag = tag));
        if (!found) CHECK(mst_probe(MST_ANY_SOURCE, &m, .tag = tag, LATER));
        REQUIRE(is(&m, left, tag, n));
        CHECK(mst_recv(got, m.bytes, MST_U8, m.sender, .tag = m.tag, LATER));
        for (size_t k = 0; k < n; k++) REQUIRE(got[k] == byte_at(left, tag, k + (size_t)i));
        CHECK(mst_wait(work));
        n = (size_t)(i * 101) % N;
        CHECK(mst_send_recv(got, n, left, sent, n, right, MST_U8, .tag = THREADS_MAX + tag, LATER));
    }
    free(sent);
    free(got);
    return NULL;
}

static void run_threads(int n) {
    pthread_t threads[THREADS_MAX];
    for (int t = 0; t < n; t++) REQUIRE(!pthread_create(&threads[t], NULL, run_thread, (void *)(intptr_t)t));
    for (int t = 0; t < n; t++) pthread_join(threads[t], NULL);
    CHECK(mst_barrier(LATER));
}

static void *cancel_soon(void *context) {
    usleep(100000);
    mst_cancel_fire(context);
    return NULL;
}

/* A call that waits for rank 1, which sends nothing. */
static mst_status wait_in_vain(const char *how, int ms) {
    mst_message m;
    bool found = false;
    if (!strcmp(how, "any")) return mst_probe(MST_ANY_SOURCE, &m, .tag = MST_ANY_TAG, .timeout_ms = ms);
    if (!strcmp(how, "probe")) return mst_probe(1, &m, .tag = 5, .timeout_ms = ms);
    if (!strcmp(how, "send_recv")) return mst_send_recv(out, 1, 1, in, LARGE, 1, MST_U8, .timeout_ms = ms);
    if (!strcmp(how, "iprobe")) {
        mst_status st = MST_OK;
        while (st == MST_OK && !found) st = mst_iprobe(1, &found, &m, .tag = MST_ANY_TAG);
        return st;
    }
    mst_cancel *cancel;
    pthread_t thread;
    CHECK(mst_cancel_new(&cancel));
    REQUIRE(!pthread_create(&thread, NULL, cancel_soon, cancel));
    mst_status st = mst_probe(1, &m, .cancel = cancel, .timeout_ms = ms);
    pthread_join(thread, NULL);
    mst_cancel_free(cancel);
    return st;
}

/* A message that was sent before comes first: the connection is open. */
static mst_status run_fail(const char *how, int ms) {
    char line;
    int value = 0;
    mst_status st = MST_OK;
    if (me == 1) st = mst_send(&value, 1, MST_I32, 0, LATER);
    if (me == 0) st = mst_probe(MST_ANY_SOURCE, NULL, .tag = MST_ANY_TAG, LATER);
    if (me == 0 && st == MST_OK) st = mst_recv(&value, 1, MST_I32, 1, LATER);
    report("first", st, msi_now());
    int64_t begin = msi_now();
    if (me == 0 && st == MST_OK) st = report(how, wait_in_vain(how, ms), begin);
    while (read(STDIN_FILENO, &line, 1) == 1) continue;
    return st;
}

int main(int argc, char **argv) {
    in = malloc(LARGE);
    out = malloc(LARGE);
    if (argc < 2 || !in || !out) return 2;
    CHECK(mst_init(LATER));
    me = mst_get_rank(NULL);
    size = mst_get_world_size(NULL);
    left = (me + size - 1) % size;
    right = (me + 1) % size;
    mst_status st = MST_OK;
    rounds = argc > 3 ? atoi(argv[3]) : 0;
    if (!strcmp(argv[1], "calls")) run_calls();
    if (!strcmp(argv[1], "threads") && argc > 3) run_threads(atoi(argv[2]));
    if (!strcmp(argv[1], "fail") && argc > 3) st = run_fail(argv[2], atoi(argv[3]));
    mst_destroy_process_group(NULL);
    if (strcmp(argv[1], "fail") != 0) printf("done\n");
    free(in);
    free(out);
    return st != MST_OK;
}
