/* trainer.c - see trainer.h. */
#include "app/trainer.h"

#include "base/fail.h"
#include "io/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool interleaved(const struct gpt_trainer *t) {
    return t->mesh.size[GPT_PP] > 1 && strcmp(t->options->schedule, "interleaved") == 0;
}

/*
 * Splits a step's sequences over dp, cp and micro-batches. With --survive there may be any number of
 * replicas, so they may get different numbers of sequences.
 */
static int split_batch(struct gpt_trainer *t) {
    const struct gpt_options *o = t->options;
    size_t dp = t->mesh.size[GPT_DP], cp = t->mesh.size[GPT_CP];
    t->micro_batches = o->micro_batches ? o->micro_batches : t->mesh.size[GPT_PP];
    if (o->batch == 0) return gpt_fail("--batch 0: a step needs at least one sequence");
    bool uneven = o->survive && t->micro_batches == 1 && o->batch >= dp;
    if (o->batch % (dp * t->micro_batches) && !uneven)
        return gpt_fail("--batch %zu cannot be split into %zu micro-batches for each of %zu replicas: choose "
                        "a multiple of %zu",
                        o->batch, t->micro_batches, dp, dp * t->micro_batches);
    if (cp > 1 && t->config.context % (2 * cp))
        return gpt_fail("--context %zu cannot be split over cp=%zu: choose a multiple of %zu",
                        t->config.context, cp, 2 * cp);
    size_t replica = t->mesh.coordinate[GPT_DP];
    t->first = o->batch * replica / dp;
    t->sequences = (o->batch * (replica + 1) / dp - t->first) / t->micro_batches;
    t->time = t->config.context / cp;
    size_t rows = t->sequences * t->time;
    t->tokens = calloc(rows, sizeof *t->tokens);
    t->targets = calloc(rows, sizeof *t->targets);
    t->sequence = calloc(2 * t->config.context, sizeof *t->sequence);
    return t->tokens && t->targets && t->sequence ? 0 : gpt_fail("no memory");
}

static int open_models(struct gpt_trainer *t) {
    t->model = calloc(t->chunks, sizeof *t->model);
    t->adam = calloc(t->chunks, sizeof *t->adam);
    if (!t->model || !t->adam) return gpt_fail("no memory");
    for (size_t i = 0; i < t->chunks; i++) {
        struct gpt_shard shard;
        if (gpt_mesh_shard(&t->mesh, &t->config, i, t->chunks, &shard) ||
            !(t->model[i] = gpt_model_new(&t->config, &shard, t->options->seed)) ||
            gpt_adam_init(t->model[i], &t->adam[i]))
            return -1;
    }
    return 0;
}

static int open_pipeline(struct gpt_trainer *t) {
    t->keeps = 1;
    if (t->mesh.group[GPT_PP]) {
        if (gpt_check(mst_pipeline_new(&t->pipeline, .group = t->mesh.group[GPT_PP],
                                       .schedule = t->options->schedule, .micros = (int)t->micro_batches,
                                       .chunks = interleaved(t) ? (int)t->chunks : 0,
                                       .out = {MST_F32, 2, {t->sequences * t->time, t->config.width}},
                                       .forward = gpt_step_forward, .backward = gpt_step_backward, .arg = t)))
            return -1;
        t->keeps = (size_t)mst_pipeline_keeps(t->pipeline);
    }
    t->acts = calloc(t->keeps * t->chunks, sizeof(struct gpt_acts *));
    return t->acts ? 0 : gpt_fail("no memory");
}

/* The directory to load from; NULL: start with a new model. */
static const char *load_from(const struct gpt_options *o) {
    char path[4096];
    if (!o->resume || !o->save) return o->load;
    snprintf(path, sizeof path, "%s/model.safetensors", o->save);
    return access(path, F_OK) == 0 ? o->save : o->load;
}

/* The part of opening that each process does without the others. */
static int open_local(struct gpt_trainer *t) {
    const struct gpt_options *o = t->options;
    const char *load = t->from = load_from(o);
    if (load ? gpt_checkpoint_config(load, &t->config) || gpt_options_agree(o, load, &t->config)
             : gpt_options_config(o, &t->config))
        return -1;
    if (t->config.vocabulary < 256)
        return gpt_fail("a model with %zu tokens cannot be trained on bytes: it needs 256",
                        t->config.vocabulary);
    if (interleaved(t)) t->chunks = o->chunks;
    if (gpt_dataset_open(o->text, &t->dataset) || gpt_dataset_check(&t->dataset, t->config.context) ||
        split_batch(t) || open_models(t) || (o->save && t->mesh.rank == 0 && gpt_checkpoint_prepare(o->save)))
        return -1;
    for (size_t i = 0; i < t->chunks; i++) {
        if (load && gpt_checkpoint_load(load, t->model[i], &t->adam[i])) return -1;
        t->adam[i].decay = (float)o->decay;
    }
    return 0;
}

/* Paths may name different checkpoints and texts on different hosts. */
static int check_same(struct gpt_trainer *t) {
    double steps = (double)gpt_trainer_steps(t), text = (double)t->dataset.hash, sums[] = {steps, text};
    int st = 0, ranks = t->mesh.ranks;
    if (gpt_mesh_sum(&t->mesh, sums, 2)) return -1;
    if (sums[0] != steps * ranks)
        st = gpt_fail("rank %d continues at step %.0f, other ranks at another step: all processes must share "
                      "the directory of --save or --load",
                      t->mesh.rank, steps);
    else if (sums[1] != text * ranks)
        st = gpt_fail(
            "rank %d trains on %s, of %zu bytes, other ranks on another text: give all the same file "
            "with --text",
            t->mesh.rank, t->dataset.path, t->dataset.size);
    return gpt_mesh_agree(&t->mesh, st);
}

/*
 * Gives all replicas the newest model of those that are valid. Those of processes that lost a peer differ by
 * one step at most: the weights change only when a step is complete. *root: the process that had it.
 */
static int share_model(struct gpt_trainer *t, int *root) {
    struct gpt_model *m = t->model[0];
    struct gpt_adam *adam = &t->adam[0];
    int64_t ranks = t->mesh.ranks, have = t->valid ? (int64_t)adam->step : -1;
    int64_t most[2] = {(have + 1) * ranks + ranks - 1 - t->mesh.rank, -have};
    if (gpt_check(mst_all_reduce(most, 2, MST_I64, .op = MST_MAX))) return -1;
    int64_t newest = most[0] / ranks - 1, oldest = -most[1];
    *root = (int)(ranks - 1 - most[0] % ranks);
    if (newest < 0) return gpt_fail("no process is left that has the whole model");
    if (oldest == newest) return 0;
    t->valid = t->mesh.rank == *root;
    if (gpt_check(mst_broadcast(m->values, m->count, MST_F32, .root = *root)) ||
        gpt_check(mst_broadcast(adam->exp_avg, m->count, MST_F32, .root = *root)) ||
        gpt_check(mst_broadcast(adam->exp_avg_sq, m->count, MST_F32, .root = *root)))
        return -1;
    adam->step = (size_t)newest;
    t->valid = true;
    return 0;
}

/* The part of opening that the processes of a world do together; st: the status of the local part. */
static int open_together(struct gpt_trainer *t, int st, bool share) {
    int root = -1;
    if (gpt_mesh_agree(&t->mesh, st) || (share && share_model(t, &root)) || check_same(t)) return -1;
    if (gpt_dp_open(&t->mesh, t->model, t->chunks) || open_pipeline(t)) return -1;
    if (root == t->mesh.rank && t->last_step > 0) {
        printf("continuing with %d process%s after %zu steps; the pause took %.2f s\n", t->mesh.ranks,
               t->mesh.ranks > 1 ? "es" : "", gpt_trainer_steps(t), gpt_now() - t->last_step);
        fflush(stdout);
    }
    return 0;
}

int gpt_trainer_open(const struct gpt_options *o, struct gpt_trainer *t) {
    *t = (struct gpt_trainer){.options = o, .chunks = 1, .dataset.fd = -1};
    if (o->survive)
        t->survival = (struct gpt_survival){(int)strtol(strchr(o->mesh, '=') + 1, NULL, 10), o->join_timeout};
    if (gpt_mesh_open(&t->mesh, o->mesh, o->deterministic, o->survive ? &t->survival : NULL)) return -1;
    t->valid = !t->mesh.joins;
    return open_together(t, open_local(t), t->mesh.joins);
}

/* Frees what depends on the size of the mesh. */
static void close_shares(struct gpt_trainer *t) {
    gpt_dp_free(&t->mesh);
    for (size_t i = 0; t->acts && i < t->chunks * t->keeps; i++) gpt_acts_free(t->acts[i]);
    free(t->acts);
    free(t->tokens);
    free(t->targets);
    free(t->sequence);
    t->acts = NULL;
    t->tokens = t->targets = t->sequence = NULL;
}

int gpt_trainer_recover(struct gpt_trainer *t) {
    int st;
    do {
        close_shares(t);
        t->failed = false;
        st = gpt_mesh_recover(&t->mesh, &t->survival);
        if (!st) st = open_together(t, t->model ? split_batch(t) : open_local(t), true);
    } while (st && gpt_mesh_lost());
    return st;
}

void gpt_trainer_close(struct gpt_trainer *t, bool failed) {
    mst_pipeline_free(t->pipeline);
    if (failed && t->mesh.device_mesh) {
        gpt_dp_free(&t->mesh);
        return; /* operations may still access this memory; it is freed at exit */
    }
    close_shares(t);
    for (size_t i = 0; t->adam && i < t->chunks; i++) gpt_adam_free(&t->adam[i]);
    for (size_t i = 0; t->model && i < t->chunks; i++) gpt_model_free(t->model[i]);
    gpt_dataset_close(&t->dataset);
    free(t->adam);
    free(t->model);
    gpt_mesh_close(&t->mesh, failed);
}

size_t gpt_trainer_steps(const struct gpt_trainer *t) {
    return t->adam[0].step;
}

/* Forward and backward passes of all micro-batches. */
static int run_passes(struct gpt_trainer *t) {
    mst_status st = MST_OK;
    if (t->pipeline) {
        st = mst_pipeline_run(t->pipeline);
        t->mesh.comm_seconds += mst_pipeline_last_times(t->pipeline).waiting;
    }
    for (int i = 0; !t->pipeline && st == MST_OK && i < (int)t->micro_batches; i++) {
        mst_pipeline_step step = {.micro = i, .first = true, .last = true};
        st = gpt_step_forward(&step, t);
        if (st == MST_OK) st = gpt_step_backward(&step, t);
    }
    return st != MST_OK && t->failed ? -1 : gpt_check(st);
}

/* The gradient of this process's copy of the embedding; NULL if it has none. */
static float *tied_gradient(const struct gpt_trainer *t) {
    for (size_t i = 0; i < t->chunks; i++)
        if (t->model[i]->dtable) return t->model[i]->dtable;
    return NULL;
}

/* This process's share of the squared gradient norm; each element of the model counts once. */
static double squared_norm(const struct gpt_trainer *t) {
    double sum = 0;
    for (size_t i = 0; i < t->chunks && gpt_mesh_saves(&t->mesh); i++) {
        struct gpt_squares s = gpt_gradient_squares(t->model[i]);
        sum += s.split + (t->mesh.coordinate[GPT_TP] == 0 ? s.whole : 0);
    }
    return sum;
}

int gpt_trainer_step(struct gpt_trainer *t, double *loss) {
    const struct gpt_options *o = t->options;
    size_t step = gpt_trainer_steps(t);
    t->loss = 0;
    for (size_t i = 0; i < t->chunks; i++) gpt_zero_gradients(t->model[i]);
    if (run_passes(t) || gpt_dp_wait(&t->mesh) ||
        gpt_pp_sum_embedding(&t->mesh, tied_gradient(t), t->config.vocabulary * t->config.width))
        return -1;
    /* All slices compute the same loss: count it once. */
    double sums[2] = {t->mesh.coordinate[GPT_TP] == 0 ? t->loss : 0, squared_norm(t)};
    if (gpt_mesh_sum(&t->mesh, sums, 2)) return -1;
    *loss = sums[0] / (double)(o->batch * t->config.context);
    if (!isfinite(*loss) || !isfinite(sums[1])) { /* the same in all processes, and no weight has changed */
        if (t->mesh.rank > 0) gpt_mute();
        return gpt_fail("the %s of step %zu is not finite: try a smaller --rate%s",
                        isfinite(*loss) ? "gradient" : "loss", step,
                        o->load || o->resume ? ", or start from another model" : "");
    }
    float rate = gpt_learning_rate((float)o->rate, step, o->warmup, o->steps),
          clip = gpt_clip_factor(sqrt(sums[1]), o->clip);
    for (size_t i = 0; i < t->chunks; i++) gpt_adam_step(&t->adam[i], t->model[i], rate, clip);
    t->last_step = gpt_now();
    return 0;
}

int gpt_trainer_save(struct gpt_trainer *t, const char *directory) {
    struct gpt_mesh *p = &t->mesh;
    int st = 0;
    if (p->rank == 0) st = gpt_checkpoint_create(directory, &t->config, true, gpt_trainer_steps(t));
    st = gpt_mesh_agree(p, st);
    if (!st) {
        for (size_t i = 0; i < t->chunks && gpt_mesh_saves(p) && !st; i++)
            st = gpt_checkpoint_write(directory, t->model[i], &t->adam[i]);
        st = gpt_mesh_agree(p, st);
    }
    if (p->rank == 0) {
        if (!st) st = gpt_checkpoint_finish(directory);
        if (st) gpt_checkpoint_discard(directory);
    }
    return st;
}
