/*
 * 11_survive.c - a rank dies, and the others go on without a restart. The ranks fit a line to points; each
 * has a part of the points. The last rank kills itself in the middle. The others shrink the world, go back to
 * the last step that all of them have done, and divide the points anew. The result is the same as without
 * the death.
 *
 *   muster run --survive -n 4 build/bin/examples/11_survive
 */
#include <muster/muster.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 1200, STEPS = 300, DEATH = 100 };

static void check(mst_status status) {
    if (status == MST_OK) return;
    fprintf(stderr, "%s: %s\n", mst_status_name(status), mst_error());
    exit(1);
}

/* The state of the training, which every rank has in memory. */
struct state {
    long long step;
    double a, b; /* y = a x + b */
};

/* One step of gradient descent on the points of this rank; *s changes only if it succeeds. */
static mst_status take_step(struct state *s) {
    int rank = mst_get_rank(NULL), size = mst_get_world_size(NULL);
    double gradient[2] = {0, 0};
    for (int i = rank; i < POINTS; i += size) {
        double x = (double)i / POINTS, error = s->a * x + s->b - (3 * x + 1);
        gradient[0] += error * x / POINTS;
        gradient[1] += error / POINTS;
    }
    mst_status st = mst_all_reduce(gradient, 2, MST_F64);
    if (st != MST_OK) return st;
    *s = (struct state){s->step + 1, s->a - gradient[0], s->b - gradient[1]};
    return MST_OK;
}

/* The last step may have succeeded on some of the survivors only: all go on with the oldest state. */
static mst_status recover(struct state *s) {
    mst_status st = mst_shrink_world();
    long long oldest = s->step;
    int who = mst_get_world_size(NULL);
    if (st == MST_OK) st = mst_all_reduce(&oldest, 1, MST_I64, .op = MST_MIN);
    if (st == MST_OK && s->step == oldest) who = mst_get_rank(NULL);
    if (st == MST_OK) st = mst_all_reduce(&who, 1, MST_I32, .op = MST_MIN);
    return st == MST_OK ? mst_broadcast(s, sizeof *s, MST_U8, .root = who) : st;
}

int main(void) {
    struct state s = {0, 0, 0};
    check(mst_init());
    int victim = mst_get_world_size(NULL) - 1;
    while (s.step < STEPS) {
        if (s.step == DEATH && victim > 0 && mst_get_rank(NULL) == victim) raise(SIGKILL);
        mst_status st = take_step(&s);
        if (st == MST_ERR_PEER_LOST) {
            mst_printf("%s\n", mst_error());
            victim = -1;
            st = recover(&s);
            mst_printf("going on with %d ranks at step %lld\n", mst_get_world_size(NULL), s.step);
        }
        check(st);
    }
    mst_printf("y = %.4f x + %.4f\n", s.a, s.b);
    check(mst_destroy_process_group(NULL));
    return 0;
}
