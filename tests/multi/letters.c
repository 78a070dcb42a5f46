/*
 * letters.c - blocking messages alone, as in a program that never asks for a work, so that they go the short way past the
 * operations. Pairs of ranks send each other batches; the receiver asks for them by their tags, in another order, some from
 * whoever sends. Run under a launcher: letters [SEED]. Exits with 1 at the first thing that is wrong.
 */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS = 400,
    BATCH_MOST = 10,
    TAGS = 3,
    CELL = 16384,
    HEAD = 16,
    LARGEST = 700000,
    PATIENCE_MS = 120000
};

static int me, partner;
static uint64_t state;
static unsigned char *room;

/* The same numbers on both sides. */
static uint64_t random_below(uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

/* Around what fits into a line and into a cell; the last of a batch may be larger than all that a link holds. */
static size_t random_size(bool last) {
    static const size_t sizes[] = {0, 1, 3, 40, 41, 57, 200, 4096};
    if (last && random_below(8) == 0) return LARGEST - random_below(5);
    if (last && random_below(4) == 0) return CELL - HEAD - 1 + random_below(3);
    return sizes[random_below(sizeof sizes / sizeof *sizes)];
}

struct letter {
    size_t bytes;
    int tag, number;
};

static unsigned char byte_at(const struct letter *letter, size_t i) {
    return (unsigned char)((size_t)letter->number * 31 + i * 13 + i / 251);
}

static void give_up(const char *what, const struct letter *letter) {
    fprintf(stderr, "letters: rank %d, letter %d of %zu bytes with tag %d: %s\n", me, letter->number,
            letter->bytes, letter->tag, what);
    exit(1);
}

static void send_one(const struct letter *letter) {
    for (size_t i = 0; i < letter->bytes; i++) room[i] = byte_at(letter, i);
    mst_status st =
        mst_send(room, letter->bytes, MST_U8, .dst = partner, .tag = letter->tag, .timeout_ms = PATIENCE_MS);
    if (st != MST_OK) give_up(mst_error(), letter);
}

static void receive_one(const struct letter *letter, bool from_any) {
    int sender = -7, src = from_any ? MST_ANY_SOURCE : partner;
    memset(room, 0xEE, letter->bytes + 1);
    mst_status st = mst_recv(room, letter->bytes, MST_U8, .src = src, .tag = letter->tag, .sender = &sender,
                             .timeout_ms = PATIENCE_MS);
    if (st != MST_OK) give_up(mst_error(), letter);
    if (sender != partner) give_up("another sender", letter);
    for (size_t i = 0; i < letter->bytes; i++)
        if (room[i] != byte_at(letter, i)) give_up("wrong bytes", letter);
    if (room[letter->bytes] != 0xEE) give_up("written beyond the end", letter);
}

/* All of one tag, in the order they were sent, then all of another. */
static void receive_batch(const struct letter *letters, int n, uint64_t order) {
    for (uint64_t k = 0; k < TAGS; k++)
        for (int i = 0; i < n; i++)
            if (letters[i].tag == (int)((order + k) % TAGS)) receive_one(&letters[i], order % 5 == 0);
}

static void round_of_letters(int *number, bool send) {
    struct letter letters[BATCH_MOST];
    int n = 1 + (int)random_below(BATCH_MOST);
    for (int i = 0; i < n; i++)
        letters[i] = (struct letter){random_size(i == n - 1), (int)random_below(TAGS), ++*number};
    uint64_t order = random_below(1000);
    for (int i = 0; i < n && send; i++) send_one(&letters[i]);
    if (!send) receive_batch(letters, n, order);
}

int main(int argc, char **argv) {
    state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    room = malloc(LARGEST + 1);
    if (!room || mst_init(.timeout_ms = PATIENCE_MS) != MST_OK) return 1;
    me = mst_get_rank(NULL);
    partner = me ^ 1;
    int number = 0;
    for (int round = 0; round < ROUNDS && partner < mst_get_world_size(NULL); round++)
        round_of_letters(&number, (round + me) % 2 == 1);
    if (mst_barrier(.timeout_ms = PATIENCE_MS) != MST_OK) return 1;
    if (me == 0) printf("letters: ok\n");
    mst_destroy_process_group(NULL);
    free(room);
    return 0;
}
