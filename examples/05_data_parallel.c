/*
 * 05_data_parallel.c - data-parallel training: each rank has its own data. After every step all ranks average
 * their gradients, so that all models stay the same.
 *
 *   muster run -n 4 build/bin/examples/05_data_parallel
 *
 * The model is a line, y = slope * x + offset. The data is y = 3 x + 2 plus noise.
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

/* A pseudo-random number in [-1, 1). */
static float noise(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / (float)(1 << 23) - 1;
}

int main(void) {
    check(mst_init());
    unsigned state = 7u + (unsigned)mst_get_rank(NULL); /* different data on each rank */
    float x[SAMPLES], y[SAMPLES], model[2] = {0, 0};    /* slope, offset */
    for (int i = 0; i < SAMPLES; i++) {
        x[i] = 2 * noise(&state);
        y[i] = 3 * x[i] + 2 + noise(&state) / 2;
    }

    for (int step = 0; step <= STEPS; step++) {
        float gradient[3] = {0, 0, 0}; /* of slope and offset; and the mean squared error */
        for (int i = 0; i < SAMPLES; i++) {
            float error = model[0] * x[i] + model[1] - y[i];
            gradient[0] += 2 * error * x[i] / SAMPLES;
            gradient[1] += 2 * error / SAMPLES;
            gradient[2] += error * error / SAMPLES;
        }
        /* Replaces the three numbers by their averages over all ranks. */
        check(mst_all_reduce(gradient, 3, MST_F32, .op = MST_AVG));
        if (step % 10 == 0)
            mst_printf("step %2d: y = %.3f x + %.3f, error %.4f\n", step, (double)model[0], (double)model[1],
                       (double)gradient[2]);
        for (int k = 0; k < 2; k++) model[k] -= 0.1f * gradient[k];
    }
    /* All ranks print the same model. */
    mst_printf_all("my model: y = %.4f x + %.4f\n", (double)model[0], (double)model[1]);
    check(mst_destroy_process_group(NULL));
    return 0;
}
