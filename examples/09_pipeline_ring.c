/*
 * 09_pipeline_ring.c - pipeline-parallel training: the model is split into stages, one on each rank. Stages
 * send activations to the next stage and gradients to the previous one; the library overlaps this with
 * computation.
 *
 * The model is a chain of layers tanh(w x) with one weight each. It learns to output a tenth of its input.
 *
 *   muster run -n 4 build/bin/examples/09_pipeline_ring
 */
#include <math.h>
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>

enum { LAYERS = 8, MICROS = 8, COUNT = 64, STEPS = 60 };

struct stage {
    int first, last;                          /* layers [first, last) */
    double w[LAYERS], gradient[LAYERS], loss; /* one weight for each layer */
    float x[MICROS][LAYERS + 1][COUNT]; /* inputs of layers, kept until the backward pass; by step->keep */
};

static void check(mst_status status) {
    if (status == MST_OK) return;
    fprintf(stderr, "%s: %s\n", mst_status_name(status), mst_error());
    exit(1);
}

static float data(int micro, int i) {
    return (float)((micro * COUNT + i) % 17 - 8) / 8;
}

static mst_status forward(const mst_pipeline_step *step, void *arg) {
    struct stage *s = arg;
    float(*x)[COUNT] = s->x[step->keep], *out = step->out;
    const float *in = step->in;
    for (int i = 0; i < COUNT; i++) {
        float value = in ? in[i] : data(step->micro, i);
        for (int k = s->first; k < s->last; k++) {
            x[k][i] = value;
            value = tanhf((float)s->w[k] * value);
        }
        x[s->last][i] = value;
        if (out) out[i] = value;
    }
    return MST_OK;
}

static mst_status backward(const mst_pipeline_step *step, void *arg) {
    struct stage *s = arg;
    float(*x)[COUNT] = s->x[step->keep], *out = step->out;
    const float *in = step->in;
    for (int i = 0; i < COUNT; i++) {
        float error = x[s->last][i] - data(step->micro, i) / 10; /* of the last stage, where in is NULL */
        float g = in ? in[i] : error / (MICROS * COUNT);
        if (!in) s->loss += error * error / (MICROS * COUNT);
        for (int k = s->last - 1; k >= s->first; k--) {
            float inner = g * (1 - x[k + 1][i] * x[k + 1][i]);
            s->gradient[k] += (double)(inner * x[k][i]);
            g = inner * (float)s->w[k];
        }
        if (out) out[i] = g;
    }
    return MST_OK;
}

int main(void) {
    static struct stage s;
    int starts[LAYERS + 1];
    check(mst_init());
    int rank = mst_get_rank(NULL), stages = mst_get_world_size(NULL);
    check(mst_partition_layers(LAYERS, stages, starts));
    s.first = starts[rank];
    s.last = starts[rank + 1];
    for (int k = 0; k < LAYERS; k++) s.w[k] = 0.9;

    mst_pipeline *pipeline;
    check(mst_pipeline_new(&pipeline, .schedule = "1f1b", .micros = MICROS, .out = {MST_F32, 1, {COUNT}},
                           .forward = forward, .backward = backward, .arg = &s));
    for (int iteration = 0; iteration < STEPS; iteration++) {
        s.loss = 0;
        check(mst_pipeline_run(pipeline));
        for (int k = s.first; k < s.last; k++) {
            s.w[k] -= s.gradient[k];
            s.gradient[k] = 0;
        }
        if (rank == stages - 1 && iteration % 20 == 19)
            mst_printf_all("step %d: loss %.6f\n", iteration + 1, s.loss);
    }
    mst_printf_all("stage %d has layers %d to %d\n", rank, s.first, s.last - 1);
    mst_pipeline_free(pipeline);
    check(mst_destroy_process_group(NULL));
    return 0;
}
