/* test_event_ring.c - rings of records: complete and in order, also from several threads. */
#include "harness.h"

#include "prof/record/event_ring.h"
#include "prof/record/message_seq.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 3, RECORDS = 20000 };

static void a_full_ring_takes_no_more(void **state) {
    (void)state;
    struct msi_record record = {0};
    for (uint64_t i = 0; i < MSI_RING_RECORDS; i++) {
        record.seq = i;
        assert_true(msi_event_ring_push(&record));
    }
    assert_false(msi_event_ring_push(&record));
    struct msi_event_ring *ring = msi_event_ring_all();
    assert_non_null(ring);
    for (uint64_t i = 0; i < MSI_RING_RECORDS; i++) {
        assert_int_equal(msi_event_ring_peek(ring)->seq, i);
        msi_event_ring_pop(ring);
    }
    assert_null(msi_event_ring_peek(ring));
    assert_true(msi_event_ring_push(&record));
    msi_event_ring_pop(ring);
}

static void *write_all(void *who) {
    struct msi_record record = {.line = (int32_t)(intptr_t)who};
    for (uint64_t i = 1; i <= RECORDS; i++) {
        record.seq = record.bytes = record.end = i;
        while (!msi_event_ring_push(&record)) sched_yield();
    }
    return NULL;
}

static void threads_have_rings_of_their_own(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    uint64_t seen[THREADS] = {0};
    int left = THREADS * RECORDS;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_all, (void *)(intptr_t)i), 0);
    while (left > 0) {
        for (struct msi_event_ring *ring = msi_event_ring_all(); ring; ring = ring->next) {
            const struct msi_record *r;
            for (; (r = msi_event_ring_peek(ring)); left--) {
                assert_int_equal(r->seq, ++seen[r->line]);
                assert_true(r->bytes == r->seq && r->end == r->seq);
                msi_event_ring_pop(ring);
            }
        }
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    int rings = 0;
    for (struct msi_event_ring *ring = msi_event_ring_all(); ring; ring = ring->next) rings++;
    assert_true(rings <= THREADS + 1);
    pthread_t more; /* takes over what another has left */
    assert_int_equal(pthread_create(&more, NULL, write_all, NULL), 0);
    for (left = RECORDS; left > 0;)
        for (struct msi_event_ring *ring = msi_event_ring_all(); ring; ring = ring->next)
            for (; msi_event_ring_peek(ring); left--) msi_event_ring_pop(ring);
    pthread_join(more, NULL);
    int after = 0;
    for (struct msi_event_ring *ring = msi_event_ring_all(); ring; ring = ring->next) after++;
    assert_int_equal(after, rings);
}

static _Atomic int number; /* of a thread; nothing is ordered by it */

static void *write_named(void *name) {
    struct msi_record record = {0};
    pthread_setname_np(pthread_self(), name);
    assert_true(msi_event_ring_push(&record));
    atomic_store_explicit(&number, msi_event_ring_own_number(), memory_order_relaxed);
    return NULL;
}

/* Each has a number and a name of its own, though they share a ring; readers may ask meanwhile. */
static void threads_have_names(void **state) {
    (void)state;
    static char names[2][8] = {"one", "two"};
    int numbers[100];
    for (int i = 0; i < 100; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, write_named, names[i % 2]), 0);
        for (int k = 0; k < MSI_PROF_THREADS; k++) msi_event_ring_thread(k);
        pthread_join(thread, NULL);
        numbers[i] = atomic_load_explicit(&number, memory_order_relaxed);
        assert_int_equal(numbers[i], i ? numbers[i - 1] + 1 : numbers[0]);
        for (struct msi_event_ring *ring = msi_event_ring_all(); ring; ring = ring->next)
            while (msi_event_ring_peek(ring)) msi_event_ring_pop(ring);
    }
    for (int i = 0; i < 100; i++) assert_string_equal(msi_event_ring_thread(numbers[i]).text, names[i % 2]);
    assert_string_equal(msi_event_ring_thread(1000).text, "");
}

/* When all numbers are used, a thread that takes over a ring takes over its number. */
static void numbers_are_bounded(void **state) {
    (void)state;
    static char name[] = "many";
    for (int i = 0; i < 2 * MSI_PROF_THREADS; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, write_named, name), 0);
        pthread_join(thread, NULL);
        assert_in_range(atomic_load_explicit(&number, memory_order_relaxed), 0, MSI_PROF_THREADS - 1);
        for (struct msi_event_ring *ring = msi_event_ring_all(); ring; ring = ring->next)
            while (msi_event_ring_peek(ring)) msi_event_ring_pop(ring);
    }
}

static void messages_are_counted_by_whom_and_tag(void **state) {
    (void)state;
    struct msi_message_seq seq = {0};
    for (uint64_t round = 0; round < 3; round++)
        for (int peer = 0; peer < 40; peer++)
            for (int tag = 0; tag < 3; tag++)
                for (int send = 0; send < 2; send++)
                    assert_int_equal(msi_message_seq_next(&seq, peer, tag, send), round);
    msi_message_seq_free(&seq);
}

/* The next message then has the number that the peer expects. */
static void a_message_that_was_withdrawn(void **state) {
    (void)state;
    struct msi_message_seq seq = {0};
    msi_message_seq_undo(&seq, 1, 2, false); /* it was issued before recording began */
    assert_int_equal(msi_message_seq_next(&seq, 1, 2, false), 0);
    assert_int_equal(msi_message_seq_next(&seq, 1, 2, false), 1);
    msi_message_seq_undo(&seq, 1, 2, false);
    assert_int_equal(msi_message_seq_next(&seq, 1, 2, true), 0);
    assert_int_equal(msi_message_seq_next(&seq, 1, 2, false), 1);
    msi_message_seq_free(&seq);
}

/* Streams beyond the limit have number 0; the others continue. */
static void streams_are_counted_up_to_a_limit(void **state) {
    (void)state;
    struct msi_message_seq seq = {0};
    for (uint64_t round = 0; round < 2; round++) {
        for (int tag = 0; tag < MSI_MESSAGE_STREAMS; tag++)
            assert_int_equal(msi_message_seq_next(&seq, INT32_MAX, INT32_MAX - tag, false), round);
        assert_int_equal(msi_message_seq_next(&seq, 0, 0, false), 0);
        assert_int_equal(msi_message_seq_next(&seq, 0, 0, true), 0);
        msi_message_seq_undo(&seq, 0, 0, true);
    }
    assert_int_equal(seq.streams.n, MSI_MESSAGE_STREAMS);
    msi_message_seq_free(&seq);
}

static void names_are_kept_once(void **state) {
    (void)state;
    char text[32] = "gradient";
    const char *kept = msi_prof_keep(text);
    assert_string_equal(kept, "gradient");
    assert_ptr_equal(msi_prof_keep("gradient"), kept);
    strcpy(text, "weights");
    assert_string_equal(kept, "gradient");
    for (int i = 0; i < 5000; i++) {
        snprintf(text, sizeof text, "name %d", i);
        kept = msi_prof_keep(text);
    }
    assert_string_equal(kept, "other");
    assert_string_equal(msi_prof_keep("gradient"), "gradient");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_ring_takes_no_more),
        cmocka_unit_test(threads_have_rings_of_their_own),
        cmocka_unit_test(threads_have_names),
        cmocka_unit_test(numbers_are_bounded),
        cmocka_unit_test(messages_are_counted_by_whom_and_tag),
        cmocka_unit_test(a_message_that_was_withdrawn),
        cmocka_unit_test(streams_are_counted_up_to_a_limit),
        cmocka_unit_test(names_are_kept_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
