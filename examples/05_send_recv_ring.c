/*
 * 05_send_recv_ring.c - messages from rank to rank: a token that goes round, and a swap with both neighbours.
 *
 *   muster run -n 4 build/bin/examples/05_send_recv_ring
 */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>

static void check(mst_status status) {
    if (status == MST_OK) return;
    fprintf(stderr, "%s: %s\n", mst_status_name(status), mst_error());
    exit(1);
}

/* Each rank takes the token from its left, adds its own number, and hands it on; it ends where it began. */
static void pass_token(int rank, int size, int left, int right) {
    int token = 0;
    if (size == 1) return;
    if (rank > 0) check(mst_recv(&token, 1, MST_I32, .src = left));
    token += rank;
    check(mst_send(&token, 1, MST_I32, .dst = right));
    mst_printf_all("handed the token on to %d; it says %d\n", right, token);
    if (rank == 0) check(mst_recv(&token, 1, MST_I32, .src = left));
    mst_printf("the token is back and says %d, the sum of all ranks\n", token);
}

/* Sends both ways and receives both ways. Begun together, no rank has to wait for another to receive first. */
static void swap(int rank, int left, int right) {
    int to_left = 100 + rank, to_right = 200 + rank, from_left = 0, from_right = 0;
    enum { LEFTWARDS = 1, RIGHTWARDS = 2 }; /* tags: with two ranks both neighbours are the same one */
    mst_p2p messages[] = {
        {.send = true, .buf = &to_left, .count = 1, .dtype = MST_I32, .peer = left, .tag = LEFTWARDS},
        {.send = true, .buf = &to_right, .count = 1, .dtype = MST_I32, .peer = right, .tag = RIGHTWARDS},
        {.buf = &from_left, .count = 1, .dtype = MST_I32, .peer = left, .tag = RIGHTWARDS},
        {.buf = &from_right, .count = 1, .dtype = MST_I32, .peer = right, .tag = LEFTWARDS},
    };
    mst_work *works[4];
    check(mst_batch_isend_irecv(messages, 4, works));
    for (int i = 0; i < 4; i++) check(mst_wait(works[i]));
    mst_printf_all("%d came from the left, %d from the right\n", from_left, from_right);
}

int main(void) {
    check(mst_init());
    int rank = mst_get_rank(NULL), size = mst_get_world_size(NULL);
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    pass_token(rank, size, left, right);
    check(mst_barrier());
    swap(rank, left, right);
    check(mst_destroy_process_group(NULL));
    return 0;
}
