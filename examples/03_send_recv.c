/*
 * 03_send_recv.c - point-to-point messages: a token that travels around a ring, and an exchange with
 * both neighbours.
 *
 *   muster run -n 4 build/bin/examples/03_send_recv
 */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>

static void check(mst_status status) {
    if (status == MST_OK) return;
    fprintf(stderr, "%s: %s\n", mst_status_name(status), mst_error());
    exit(1);
}

/* Each rank receives the token from its left, adds its rank, and sends the token to its right. */
static void pass_token(int rank, int size, int left, int right) {
    int token = 0;
    if (size == 1) return;
    if (rank > 0) check(mst_recv(&token, 1, MST_I32, left));
    token += rank;
    check(mst_send(&token, 1, MST_I32, right));
    mst_printf_all("sent the token to rank %d; its value is %d\n", right, token);
    if (rank == 0) check(mst_recv(&token, 1, MST_I32, left));
    mst_printf("the token is back; its value is %d, the sum of all ranks\n", token);
}

/* Exchanges a number with both neighbours. All operations start together, so they cannot deadlock. */
static void exchange(int rank, int left, int right) {
    int to_left = 100 + rank, to_right = 200 + rank, from_left = 0, from_right = 0;
    enum { LEFTWARDS = 1, RIGHTWARDS = 2 }; /* tags: in a world of two, both neighbours are the same rank */
    mst_p2p messages[] = {
        {.send = true, .buf = &to_left, .count = 1, .dtype = MST_I32, .peer = left, .tag = LEFTWARDS},
        {.send = true, .buf = &to_right, .count = 1, .dtype = MST_I32, .peer = right, .tag = RIGHTWARDS},
        {.buf = &from_left, .count = 1, .dtype = MST_I32, .peer = left, .tag = RIGHTWARDS},
        {.buf = &from_right, .count = 1, .dtype = MST_I32, .peer = right, .tag = LEFTWARDS},
    };
    mst_work *works[4];
    check(mst_batch_isend_irecv(messages, 4, works));
    for (int i = 0; i < 4; i++) check(mst_wait(works[i]));
    mst_printf_all("received %d from the left, %d from the right\n", from_left, from_right);
}

int main(void) {
    check(mst_init());
    int rank = mst_get_rank(NULL), size = mst_get_world_size(NULL);
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    pass_token(rank, size, left, right);
    check(mst_barrier());
    exchange(rank, left, right);
    check(mst_destroy_process_group(NULL));
    return 0;
}
