/*
 * blocking_messages.c - blocking send and recv only, which use the fast path without operations. Pairs of
 * ranks send each other batches. The receiver requests the messages by tag, in another order, some from any
 * source, or with any tag in the order of sending, after probes for some. Run it under a launcher:
 * blocking_messages [SEED]. Exits with 1 at the first error.
 */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS = 400,
    MAX_BATCH = 10,
    TAGS = 3,
    CELL = 16384,
    HEAD = 16,
    MAX_BYTES = 700000,
    TIMEOUT_MS = 120000
};

static int me, partner;
static uint64_t state;
static unsigned char *buffer;

/* The same numbers on sender and receiver. */
static uint64_t random_below(uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

/*
 * Sizes around those of a cache line and a cell of the ring; the last of a batch may exceed the whole ring.
 */
static size_t random_size(bool last) {
    static const size_t sizes[] = {0, 1, 3, 40, 41, 57, 200, 4096};
    if (last && random_below(8) == 0) return MAX_BYTES - random_below(5);
    if (last && random_below(4) == 0) return CELL - HEAD - 1 + random_below(3);
    return sizes[random_below(sizeof sizes / sizeof *sizes)];
}

struct message {
    size_t bytes;
    int tag, number;
};

static unsigned char byte_at(const struct message *message, size_t i) {
    return (unsigned char)((size_t)message->number * 31 + i * 13 + i / 251);
}

static void fail(const char *what, const struct message *message) {
    fprintf(stderr, "blocking_messages: rank %d, message %d of %zu bytes with tag %d: %s\n", me,
            message->number, message->bytes, message->tag, what);
    exit(1);
}

static void send_one(const struct message *message) {
    for (size_t i = 0; i < message->bytes; i++) buffer[i] = byte_at(message, i);
    mst_status st =
        mst_send(buffer, message->bytes, MST_U8, partner, .tag = message->tag, .timeout_ms = TIMEOUT_MS);
    if (st != MST_OK) fail(mst_error(), message);
}

static void receive_one(const struct message *message, bool from_any) {
    int sender = -7, src = from_any ? MST_ANY_SOURCE : partner;
    memset(buffer, 0xEE, message->bytes + 1);
    mst_status st = mst_recv(buffer, message->bytes, MST_U8, src, .tag = message->tag, .sender = &sender,
                             .timeout_ms = TIMEOUT_MS);
    if (st != MST_OK) fail(mst_error(), message);
    if (sender != partner) fail("another sender", message);
    for (size_t i = 0; i < message->bytes; i++)
        if (buffer[i] != byte_at(message, i)) fail("wrong bytes", message);
    if (buffer[message->bytes] != 0xEE) fail("written beyond the end", message);
}

static void check_message(const mst_message *got, const struct message *message) {
    if (got->sender != partner || got->tag != message->tag || got->bytes != message->bytes)
        fail("described wrongly", message);
}

/* The next message, whatever its tag is. */
static void receive_next(const struct message *message) {
    mst_message got = {0};
    int src = message->number % 5 ? partner : MST_ANY_SOURCE;
    if (message->number % 3 == 0) {
        if (mst_probe(src, &got, .tag = MST_ANY_TAG, .timeout_ms = TIMEOUT_MS) != MST_OK)
            fail(mst_error(), message);
        check_message(&got, message);
    }
    mst_status st = mst_recv(buffer, message->bytes, MST_U8, src, .tag = MST_ANY_TAG, .message = &got,
                             .timeout_ms = TIMEOUT_MS);
    if (st != MST_OK) fail(mst_error(), message);
    check_message(&got, message);
    for (size_t i = 0; i < message->bytes; i++)
        if (buffer[i] != byte_at(message, i)) fail("wrong bytes", message);
}

/* Receives all messages in the order of sending, or all of one tag, then those of the next tag. */
static void receive_batch(const struct message *messages, int n, uint64_t order) {
    for (int i = 0; i < n && order % 5 == 1; i++) receive_next(&messages[i]);
    if (order % 5 == 1) return;
    for (uint64_t k = 0; k < TAGS; k++)
        for (int i = 0; i < n; i++)
            if (messages[i].tag == (int)((order + k) % TAGS)) receive_one(&messages[i], order % 5 == 0);
}

static void run_round(int *number, bool send) {
    struct message messages[MAX_BATCH];
    int n = 1 + (int)random_below(MAX_BATCH);
    for (int i = 0; i < n; i++)
        messages[i] = (struct message){random_size(i == n - 1), (int)random_below(TAGS), ++*number};
    uint64_t order = random_below(1000);
    for (int i = 0; i < n && send; i++) send_one(&messages[i]);
    if (!send) receive_batch(messages, n, order);
}

int main(int argc, char **argv) {
    state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    buffer = malloc(MAX_BYTES + 1);
    if (!buffer || mst_init(.timeout_ms = TIMEOUT_MS) != MST_OK) return 1;
    me = mst_get_rank(NULL);
    partner = me ^ 1;
    int number = 0;
    for (int round = 0; round < ROUNDS && partner < mst_get_world_size(NULL); round++)
        run_round(&number, (round + me) % 2 == 1);
    if (mst_barrier(.timeout_ms = TIMEOUT_MS) != MST_OK) return 1;
    if (me == 0) printf("blocking_messages: ok\n");
    mst_destroy_process_group(NULL);
    free(buffer);
    return 0;
}
