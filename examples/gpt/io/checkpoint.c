/* checkpoint.c - copies slices of parameters to and from files that hold whole parameters. */
#include "io/checkpoint.h"

#include "base/fail.h"
#include "io/config_json.h"
#include "io/safetensors.h"
#include "io/weight_names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_SIZE = 4096 };
#define CONFIG "config.json"
#define MODEL  "model.safetensors"
#define PART   ".part" /* suffix until the checkpoint is complete */

/* Prefixes of the names of the optimizer's averages. */
static const char *const average_prefix[2] = {"optimizer.exp_avg.", "optimizer.exp_avg_sq."};

static void path_of(char path[PATH_SIZE], const char *directory, const char *name) {
    snprintf(path, PATH_SIZE, "%s/%s", directory, name);
}

static struct gpt_tensor tensor_of(const struct gpt_param *p, const char *prefix) {
    struct gpt_tensor t = {.dimensions = p->rows ? 2 : 1,
                           .shape = {p->rows ? p->rows : p->columns, p->columns}};
    snprintf(t.name, sizeof t.name, "%s%s", prefix, p->name);
    return t;
}

int gpt_checkpoint_prepare(const char *directory) {
    char path[PATH_SIZE];
    if (mkdir(directory, 0777) && errno != EEXIST)
        return gpt_fail("--save %s: %s", directory, strerror(errno));
    path_of(path, directory, MODEL PART);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return gpt_fail("--save %s: cannot create a file there: %s", directory, strerror(errno));
    close(fd);
    unlink(path);
    return 0;
}

int gpt_checkpoint_create(const char *directory, const struct gpt_config *config, bool averages,
                          size_t step) {
    char path[PATH_SIZE];
    struct gpt_shard whole = gpt_shard_whole(config);
    struct gpt_param *params = calloc(gpt_params_max(config), sizeof *params);
    struct gpt_tensor *list = calloc(3 * gpt_params_max(config), sizeof *list);
    size_t data_at, n = params && list ? gpt_params_list(config, &whole, params) : 0, total = n;
    for (size_t i = 0; i < n; i++) {
        list[i] = tensor_of(&params[i], "");
        for (size_t k = 0; k < 2 && averages; k++) list[total++] = tensor_of(&params[i], average_prefix[k]);
    }
    int st = n ? 0 : gpt_fail("no memory");
    if (!st && mkdir(directory, 0777) && errno != EEXIST) st = gpt_fail("%s: %s", directory, strerror(errno));
    path_of(path, directory, CONFIG PART);
    if (!st) st = gpt_config_save(path, config);
    path_of(path, directory, MODEL PART);
    if (!st) st = gpt_tensors_create(path, list, total, step, &data_at);
    free(list);
    free(params);
    return st;
}

struct target {
    int fd;
    const char *path;
    const struct gpt_tensors *tensors;
};

/* Writes a parameter's slice to its tensor. */
static int write_param(const struct target *to, const struct gpt_shard *shard, const struct gpt_param *p,
                       const char *prefix, const float *values) {
    char name[GPT_NAME_SIZE];
    snprintf(name, sizeof name, "%s%s", prefix, p->name);
    const struct gpt_tensor *t = gpt_tensors_find(to->tensors, name);
    if (!t) return gpt_fail("%s: no tensor '%s'", to->path, name);
    size_t base = (size_t)(to->tensors->data - to->tensors->file.data) + t->begin;
    for (size_t r = 0; r < gpt_param_runs(p); r++) {
        struct gpt_run run = gpt_param_run(p, shard, r);
        if (gpt_file_write(to->fd, values + run.local, run.count * sizeof *values,
                           base + run.whole * sizeof *values, to->path))
            return -1;
    }
    return 0;
}

static int write_all(const struct target *to, const struct gpt_model *m, const struct gpt_adam *adam) {
    int st = 0;
    for (size_t i = 0; i < m->params && !st; i++) {
        const struct gpt_param *p = &m->param[i];
        if (p->tied_copy || (p->split == GPT_WHOLE && m->shard.slice > 0)) continue;
        st = write_param(to, &m->shard, p, "", m->values + p->offset);
        if (!st && adam) st = write_param(to, &m->shard, p, average_prefix[0], adam->exp_avg + p->offset);
        if (!st && adam) st = write_param(to, &m->shard, p, average_prefix[1], adam->exp_avg_sq + p->offset);
    }
    return st;
}

int gpt_checkpoint_write(const char *directory, const struct gpt_model *model, const struct gpt_adam *adam) {
    char path[PATH_SIZE];
    struct gpt_tensors tensors;
    path_of(path, directory, MODEL PART);
    if (gpt_tensors_open(path, &tensors)) return -1;
    int fd = open(path, O_WRONLY | O_CLOEXEC), st;
    struct target to = {fd, path, &tensors};
    if (adam && tensors.step != adam->step)
        st = gpt_fail("%s: from another save, of step %llu; all processes must share the directory of --save",
                      path, (unsigned long long)tensors.step);
    else
        st = fd < 0 ? gpt_fail("%s: %s", path, strerror(errno)) : write_all(&to, model, adam);
    if (!st && fsync(fd)) st = gpt_fail("%s: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    gpt_tensors_free(&tensors);
    return st;
}

static int replace(const char *directory, const char *part, const char *name) {
    char from[PATH_SIZE], to[PATH_SIZE];
    path_of(from, directory, part);
    path_of(to, directory, name);
    return rename(from, to) ? gpt_fail("%s: %s", to, strerror(errno)) : 0;
}

/* Makes the renames durable. */
static int sync_directory(const char *directory) {
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool synced = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL); /* EINVAL: the file system cannot do it */
    int st = synced ? 0 : gpt_fail("%s: %s", directory, strerror(errno));
    if (fd >= 0) close(fd);
    return st;
}

int gpt_checkpoint_finish(const char *directory) {
    if (replace(directory, CONFIG PART, CONFIG) || replace(directory, MODEL PART, MODEL)) return -1;
    return sync_directory(directory);
}

void gpt_checkpoint_discard(const char *directory) {
    static const char *const parts[] = {CONFIG PART, MODEL PART};
    char path[PATH_SIZE];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        path_of(path, directory, parts[i]);
        unlink(path);
    }
}

int gpt_checkpoint_save(const char *directory, const struct gpt_model *model, const struct gpt_adam *adam) {
    if (gpt_checkpoint_create(directory, &model->config, adam != NULL, adam ? adam->step : 0)) return -1;
    return gpt_checkpoint_write(directory, model, adam) ? -1 : gpt_checkpoint_finish(directory);
}

int gpt_checkpoint_config(const char *directory, struct gpt_config *config) {
    char path[PATH_SIZE];
    path_of(path, directory, CONFIG);
    return gpt_config_load(path, config);
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Loads a parameter's slice: run by run, and each run row by row. */
static int load_param(const struct gpt_tensors *tensors, const struct gpt_model *m, const struct gpt_param *p,
                      float *values) {
    for (size_t r = 0; r < gpt_param_runs(p); r++) {
        struct gpt_run run = gpt_param_run(p, &m->shard, r);
        for (size_t done = 0, n; done < run.count; done += n) {
            struct gpt_source from;
            size_t row = (run.whole + done) / p->columns, column = (run.whole + done) % p->columns;
            n = least(run.count - done, p->columns - column);
            if (gpt_source_of(tensors, &m->config, p, row, column, &from)) return -1;
            gpt_tensors_read(tensors, from.tensor, from.base, from.step, n, values + run.local + done);
        }
    }
    return 0;
}

/* Averages always have the names and the layout of GPT-2. */
static int load_averages(const struct gpt_tensors *tensors, const struct gpt_model *m, const char *prefix,
                         float *to) {
    for (size_t i = 0; i < m->params; i++) {
        const struct gpt_param *p = &m->param[i];
        struct gpt_tensor wanted = tensor_of(p, prefix);
        const struct gpt_tensor *t = gpt_tensors_find(tensors, wanted.name);
        if (!t) return gpt_fail("no tensor '%s': training cannot go on from this file", wanted.name);
        if (t->dtype != GPT_F32 || t->dimensions != wanted.dimensions ||
            memcmp(t->shape, wanted.shape, t->dimensions * sizeof *t->shape) != 0)
            return gpt_fail("'%s' does not have the shape of config.json", wanted.name);
        for (size_t r = 0; r < gpt_param_runs(p); r++) {
            struct gpt_run run = gpt_param_run(p, &m->shard, r);
            gpt_tensors_read(tensors, t, run.whole, 1, run.count, to + p->offset + run.local);
        }
    }
    return 0;
}

int gpt_checkpoint_load(const char *directory, struct gpt_model *model, struct gpt_adam *adam) {
    char path[PATH_SIZE];
    struct gpt_tensors tensors;
    path_of(path, directory, MODEL);
    if (gpt_tensors_open(path, &tensors)) return -1;
    int st = 0;
    for (size_t i = 0; i < model->params && !st; i++)
        st = load_param(&tensors, model, &model->param[i], model->values + model->param[i].offset);
    if (!st && adam) st = load_averages(&tensors, model, average_prefix[0], adam->exp_avg);
    if (!st && adam) st = load_averages(&tensors, model, average_prefix[1], adam->exp_avg_sq);
    if (!st && adam) adam->step = (size_t)tensors.step;
    if (st) gpt_fail_in(path);
    gpt_tensors_free(&tensors);
    return st;
}
