/*
 * test_link_pairs.c - two threads or processes with a link between them: full duplex, at full speed, many
 * times around the ring of cells. Both use the same random numbers, so each knows what the other sends.
 */
#include "link_kit.h"

#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

enum { BATCH = 24 };

/* The sleep state of a side that does not spin. */
struct bed {
    _Atomic int asleep;
    int wake_fd;
};

struct side {
    struct msi_link *link;
    int number, rounds;
    size_t largest;
    bool ok;
    struct bed *bed; /* NULL: it yields */
};

/* A batch of messages in one direction: random sizes; the bytes depend on their offset in the stream. */
struct batch {
    size_t n, total;
    size_t sizes[BATCH];
    char *data;
    struct msi_transfer transfers[BATCH];
};

static void roll_batch(struct batch *b, struct dice *dice, size_t largest) {
    b->n = 1 + roll(dice, BATCH);
    b->total = 0;
    for (size_t i = 0; i < b->n; i++) b->total += b->sizes[i] = roll_size(dice, largest);
    b->data = malloc(b->total ? b->total : 1);
}

static bool same_bytes(const char *data, size_t n, uint64_t stream, uint64_t at) {
    for (size_t i = 0; i < n; i++)
        if (data[i] != byte_at(stream, at + i)) return false;
    return true;
}

static bool all_done(const struct batch *b) {
    return b->n == 0 || msi_transfer_done(&b->transfers[b->n - 1]);
}

/* The posted callback of the peer: wakes this side if it may be asleep. */
static void ring(void *arg) {
    struct bed *bed = arg;
    uint64_t one = 1;
    if (atomic_load(&bed->asleep) && atomic_exchange(&bed->asleep, 0))
        (void)!write(bed->wake_fd, &one, sizeof one);
}

/* Sleeps until the wake_fd is readable, unless the link made progress. Returns false on a timeout. */
static bool sleep_on(struct msi_link *link, struct bed *bed) {
    struct pollfd ask = {.fd = bed->wake_fd, .events = POLLIN};
    uint64_t rung;
    atomic_store(&bed->asleep, 1);
    bool moved = advance(link);
    if (moved && atomic_exchange(&bed->asleep, 0)) return true;
    return poll(&ask, 1, LIMIT_MS) == 1 && read(bed->wake_fd, &rung, sizeof rung) == sizeof rung;
}

/* Advances the link, or sleeps. */
static bool move_or_rest(const struct side *side) {
    if (advance(side->link)) return true;
    if (side->bed) return sleep_on(side->link, side->bed);
    sched_yield();
    return true;
}

/* Without asserts, which cmocka does not support in threads and child processes. */
static bool exchange(const struct side *side, struct batch *send, struct batch *receive, int64_t limit) {
    struct msi_link *link = side->link;
    size_t at = 0;
    for (size_t i = 0; i < receive->n; at += receive->sizes[i++])
        msi_link_receive(link, &receive->transfers[i], receive->data + at, receive->sizes[i]);
    at = 0;
    for (size_t i = 0; i < send->n; at += send->sizes[i++])
        msi_link_send(link, &send->transfers[i], send->data + at, send->sizes[i]);
    while (msi_link_busy(link)) {
        if (!move_or_rest(side)) return false;
        if (link->status != MST_OK || msi_now() > limit) return false;
    }
    return all_done(send) && all_done(receive);
}

static void *play(void *context) {
    struct side *side = context;
    struct dice dice[2] = {{11}, {22}}; /* by the side that sends */
    uint64_t at[2] = {0, 0};
    int64_t limit = msi_deadline(LIMIT_MS);
    side->ok = true;
    for (int i = 0; i < side->rounds && side->ok; i++) {
        struct batch batches[2];
        for (int j = 0; j < 2; j++) roll_batch(&batches[j], &dice[j], side->largest);
        struct batch *send = &batches[side->number], *receive = &batches[1 - side->number];
        fill(send->data, send->total, (uint64_t)side->number, at[side->number]);
        side->ok =
            exchange(side, send, receive, limit) &&
            same_bytes(receive->data, receive->total, 1 - (uint64_t)side->number, at[1 - side->number]);
        for (int j = 0; j < 2; j++) {
            at[j] += batches[j].total;
            free(batches[j].data);
        }
    }
    return NULL;
}

static void play_as_threads(const struct link_base *base, int fault, int rounds, size_t largest) {
    struct ends ends;
    if (!open_ends(base, fault, &ends)) return;
    struct side sides[2] = {{.number = 0}, {.number = 1}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        sides[i] = (struct side){ends.end[i], i, rounds / SLOWER, largest, false, NULL};
        threads[i] = start_thread(play, &sides[i]);
    }
    for (int i = 0; i < 2; i++) join_thread(threads[i]);
    for (int i = 0; i < 2; i++)
        if (!sides[i].ok) fail_msg("%s, side %d: %s", base->name, i, ends.end[i]->why);
    close_ends(&ends);
}

static void play_as_processes(const struct link_base *base, int rounds, size_t largest) {
    struct ends ends;
    if (!open_ends(base, 0, &ends)) return;
    pid_t pid = fork();
    struct side side = {ends.end[pid == 0], pid == 0, rounds / SLOWER, largest, false, NULL};
    if (pid == 0) alarm(JOIN_LIMIT_S);
    play(&side);
    if (pid == 0) _exit(side.ok ? 0 : 1);
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(side.ok);
    close_ends(&ends);
}

/* At least one cell per batch: thousands of rounds of the ring. */
static void threads_go_round_the_ring(void **state) {
    (void)state;
    play_as_threads(&link_bases[1], 0, 60000, 300);
}

static void threads_exchange_all_sizes(void **state) {
    (void)state;
    for (size_t i = 1; i < COUNT_OF(link_bases); i++) play_as_threads(&link_bases[i], 0, 60, 1 << 20);
}

static void threads_exchange_under_faults(void **state) {
    (void)state;
    for (size_t i = 1; i < COUNT_OF(link_bases); i++)
        for (int fault = 1; fault < PLAIN_AND_FAULTS; fault++)
            play_as_threads(&link_bases[i], fault, 40, 400);
}

/* Both sides sleep whenever nothing moves. One lost wake-up fails the test. */
static void no_wake_up_is_lost(void **state) {
    (void)state;
    struct ends ends = {.memory = NULL};
    struct bed beds[2];
    struct side sides[2];
    open_shm(&ends);
    for (int i = 0; i < 2; i++) {
        atomic_init(&beds[i].asleep, 0);
        beds[i].wake_fd = eventfd(0, EFD_CLOEXEC);
        close_link(ends.end[i]);
    }
    memset(ends.memory, 0, msi_link_shm_bytes());
    for (int i = 0; i < 2; i++) {
        assert_ok(msi_link_open_shm(ends.memory, i, ring, &beds[1 - i], &ends.end[i]));
        sides[i] = (struct side){ends.end[i], i, 1000 / SLOWER, 200000, false, &beds[i]};
    }
    pthread_t thread = start_thread(play, &sides[1]);
    play(&sides[0]);
    join_thread(thread);
    assert_true(sides[0].ok && sides[1].ok);
    close_ends(&ends);
    close(beds[0].wake_fd);
    close(beds[1].wake_fd);
}

static void processes_exchange(void **state) {
    (void)state;
    for (size_t i = 1; i < COUNT_OF(link_bases); i++) {
        play_as_processes(&link_bases[i], 3000, 300);
        play_as_processes(&link_bases[i], 40, 1 << 20);
    }
}

/* Ping-pong of small messages. */
static void *echo(void *context) {
    struct side *side = context;
    int64_t limit = msi_deadline(LIMIT_MS);
    side->ok = true;
    for (uint32_t i = 0; i < (uint32_t)side->rounds && side->ok; i++) {
        struct msi_transfer send, receive;
        uint32_t mine = i * 2 + (uint32_t)side->number, theirs = 0;
        if (side->number == 0) msi_link_send(side->link, &send, &mine, 4);
        msi_link_receive(side->link, &receive, &theirs, 4);
        while (!msi_transfer_done(&receive) && side->link->status == MST_OK && msi_now() < limit)
            if (!advance(side->link)) sched_yield();
        if (side->number == 1) msi_link_send(side->link, &send, &mine, 4);
        while (!msi_transfer_done(&send) && side->link->status == MST_OK) advance(side->link);
        side->ok = theirs == i * 2 + 1 - (uint32_t)side->number;
    }
    return NULL;
}

static void threads_take_turns(void **state) {
    (void)state;
    for (size_t i = 1; i < COUNT_OF(link_bases); i++) {
        struct ends ends;
        if (!open_ends(&link_bases[i], 0, &ends)) continue;
        struct side here = {.link = ends.end[0], .number = 0, .rounds = 20000 / SLOWER},
                    there = {.link = ends.end[1], .number = 1, .rounds = 20000 / SLOWER};
        pthread_t thread = start_thread(echo, &there);
        echo(&here);
        join_thread(thread);
        assert_true(here.ok && there.ok);
        close_ends(&ends);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_go_round_the_ring),
        cmocka_unit_test(threads_exchange_all_sizes),
        cmocka_unit_test(threads_exchange_under_faults),
        cmocka_unit_test(no_wake_up_is_lost),
        cmocka_unit_test(processes_exchange),
        cmocka_unit_test(threads_take_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
