/*
 * ring_pipeline.c - pipeline parallelism: the layers of a model are divided over the ranks.
 *
 * First the ranks form a ring that generates: a state passes through all stages, and the last stage sends it
 * back to the first, as in the generation of text. Several states are on their way at the same time. One rank
 * sends to itself. Then mst_pipeline trains the model with each training schedule. States and weights must be
 * those of one process that has all layers.
 */
#include "program.h"
#include <math.h>

enum { LAYERS = 8, WIDTH = 32, MICROS = 6, LAPS = 4, STEPS = 5 };

struct stage {
    int first, last;                    /* layers first to last - 1 */
    float w[LAYERS], gradient[LAYERS];  /* one weight for each layer: x becomes tanh(w x + 0.1) */
    float x[MICROS][LAYERS + 1][WIDTH]; /* inputs of the layers, by step->keep */
    double loss;
};

static struct stage stage_of(int first, int last) {
    struct stage s = {.first = first, .last = last};
    for (int k = 0; k < LAYERS; k++) s.w[k] = 0.7f + 0.1f * (float)k;
    return s;
}

static float data(int micro, int i) {
    return (float)((micro * WIDTH + i) % 17 - 8) / 8;
}

static void layer(float w, const float *in, float *out) {
    for (int i = 0; i < WIDTH; i++) out[i] = tanhf(w * in[i] + 0.1f);
}

static mst_status forward(const mst_pipeline_step *step, void *arg) {
    struct stage *s = arg;
    float(*x)[WIDTH] = s->x[step->keep];
    for (int i = 0; i < WIDTH; i++)
        x[s->first][i] = step->in ? ((const float *)step->in)[i] : data(step->micro, i);
    for (int k = s->first; k < s->last; k++) layer(s->w[k], x[k], x[k + 1]);
    for (int i = 0; i < WIDTH && step->out; i++) ((float *)step->out)[i] = x[s->last][i];
    return MST_OK;
}

/* The loss is the squared distance to half of the data. */
static mst_status backward(const mst_pipeline_step *step, void *arg) {
    struct stage *s = arg;
    float(*x)[WIDTH] = s->x[step->keep], *out = step->out;
    for (int i = 0; i < WIDTH; i++) {
        float error = x[s->last][i] - data(step->micro, i) / 2;
        float g = step->in ? ((const float *)step->in)[i] : error / (MICROS * WIDTH);
        if (!step->in) s->loss += (double)(error * error);
        for (int k = s->last - 1; k >= s->first; k--) {
            float inner = g * (1 - x[k + 1][i] * x[k + 1][i]);
            s->gradient[k] += inner * x[k][i];
            g = inner * s->w[k];
        }
        if (out) out[i] = g;
    }
    return MST_OK;
}

static void update(struct stage *s) {
    for (int k = s->first; k < s->last; k++) s->w[k] -= s->gradient[k];
    for (int k = s->first; k < s->last; k++) s->gradient[k] = 0;
}

static void generate(const struct stage *s, int rank, int size) {
    float state[MICROS][WIDTH], expected[2][WIDTH];
    mst_work *sends[MICROS] = {NULL};
    for (int turn = 0; turn < LAPS * MICROS; turn++) {
        int m = turn % MICROS, lap = turn / MICROS;
        if (sends[m]) check(mst_wait(sends[m]));
        sends[m] = NULL;
        for (int i = 0; i < WIDTH && turn < MICROS; i++) state[m][i] = data(m, i);
        if (rank > 0 || lap > 0)
            check(mst_recv(state[m], WIDTH, MST_F32, (rank + size - 1) % size, .tag = m));
        for (int k = s->first; k < s->last; k++) layer(s->w[k], state[m], state[m]);
        if (rank < size - 1 || lap < LAPS - 1)
            check(mst_isend(state[m], WIDTH, MST_F32, (rank + 1) % size, .tag = m, .work = &sends[m]));
    }
    for (int m = 0; m < MICROS; m++) {
        if (sends[m]) check(mst_wait(sends[m]));
        for (int i = 0; i < WIDTH; i++) expected[0][i] = data(m, i);
        int layers = (LAPS - 1) * LAYERS + s->last; /* that the state has passed when it leaves this stage */
        for (int k = 0; k < layers; k++) layer(s->w[k % LAYERS], expected[k % 2], expected[(k + 1) % 2]);
        for (int i = 0; i < WIDTH; i++)
            expect(fabsf(state[m][i] - expected[layers % 2][i]) < 1e-5f, "state %d[%d] is %g, not %g", m, i,
                   (double)state[m][i], (double)expected[layers % 2][i]);
    }
}

static void train(const char *schedule, const int *starts, int rank, int size) {
    static struct stage s, all;
    s = stage_of(starts[rank], starts[rank + 1]);
    all = stage_of(0, LAYERS);
    mst_pipeline *pipeline;
    check(mst_pipeline_new(&pipeline, .schedule = schedule, .micros = MICROS, .out = {MST_F32, 1, {WIDTH}},
                           .forward = forward, .backward = backward, .arg = &s));
    for (int i = 0; i < STEPS; i++, update(&s), update(&all)) {
        check(mst_pipeline_run(pipeline));
        for (int m = 0; m < MICROS; m++) {
            mst_pipeline_step step = {.micro = m, .keep = m};
            check(forward(&step, &all));
            check(backward(&step, &all));
        }
    }
    check(mst_pipeline_free(pipeline));
    for (int k = s.first; k < s.last; k++)
        expect(fabsf(s.w[k] - all.w[k]) < 1e-5f, "%s: the weight of layer %d is %g, not %g", schedule, k,
               (double)s.w[k], (double)all.w[k]);
    if (rank == size - 1)
        expect(fabs(s.loss - all.loss) < 1e-4, "%s: the loss is %g, not %g", schedule, s.loss, all.loss);
}

int main(void) {
    int starts[LAYERS + 1];
    check(mst_init());
    int rank = mst_get_rank(NULL), size = mst_get_world_size(NULL);
    check(mst_partition_layers(LAYERS, size, starts));
    struct stage s = stage_of(starts[rank], starts[rank + 1]);
    generate(&s, rank, size);
    train("1f1b", starts, rank, size);
    train("gpipe", starts, rank, size);
    return finish("ring_pipeline");
}
