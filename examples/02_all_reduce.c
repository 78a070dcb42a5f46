/*
 * 02_all_reduce.c - training on all ranks at once: each has data of its own, and after every step they average their
 * gradients, so that all take the same step.
 *
 *   muster run -n 4 build/bin/examples/02_all_reduce
 *
 * The model is a line, y = slope * x + offset; the data lie around y = 3 x + 2.
 */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 200, STEPS = 60 };

static void check(mst_status status) {
    if (status == MST_OK) return;
    fprintf(stderr, "%s: %s\n", mst_status_name(status), mst_error());
    exit(1);
}

/* A number in [-1, 1), from a state of each rank's own. */
static float noise(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / (float)(1 << 23) - 1;
}

int main(void) {
    check(mst_init());
    unsigned state = 7u + (unsigned)mst_get_rank(NULL);
    float x[SAMPLES], y[SAMPLES], model[2] = {0, 0}; /* slope, offset */
    for (int i = 0; i < SAMPLES; i++) {
        x[i] = 2 * noise(&state);
        y[i] = 3 * x[i] + 2 + noise(&state) / 2;
    }

    for (int step = 0; step <= STEPS; step++) {
        float gradient[3] = {0, 0, 0}; /* of slope and offset, and the error itself */
        for (int i = 0; i < SAMPLES; i++) {
            float error = model[0] * x[i] + model[1] - y[i];
            gradient[0] += 2 * error * x[i] / SAMPLES;
            gradient[1] += 2 * error / SAMPLES;
            gradient[2] += error * error / SAMPLES;
        }
        /* Every rank puts in its three numbers and gets the average over all ranks back, in the same place. */
        check(mst_all_reduce(gradient, 3, MST_F32, .op = MST_AVG));
        if (step % 10 == 0)
            mst_printf("step %2d: y = %.3f x + %.3f, error %.4f\n", step, (double)model[0], (double)model[1],
                       (double)gradient[2]);
        for (int k = 0; k < 2; k++) model[k] -= 0.1f * gradient[k];
    }
    mst_printf_all("my model: y = %.6f x + %.6f\n", (double)model[0], (double)model[1]); /* all the same */
    check(mst_destroy_process_group(NULL));
    return 0;
}
