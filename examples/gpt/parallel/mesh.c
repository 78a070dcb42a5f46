/* mesh.c - the mesh: which ways it has, where this process is, and the groups along them. */
#include "parallel/mesh.h"

#include "app/fail.h"
#include "nn/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const names[GPT_WAYS] = {"dp", "tp", "pp", "cp"};

double gpt_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int gpt_check(mst_status status) {
    if (status == MST_OK) return 0;
    if (status == MST_ERR_PEER_LOST) gpt_fall_behind();
    return gpt_fail("%s: %s", mst_status_name(status), mst_error());
}

static int way_of(const char *name) {
    for (int way = 0; way < GPT_WAYS; way++)
        if (strcmp(name, names[way]) == 0) return way;
    return -1;
}

/* Fills sizes and coordinates from the mesh's dimensions; together becomes those of dp and cp, in the mesh's order. */
static void read_mesh(struct gpt_parallel *p, char *together, size_t room) {
    int shape[GPT_WAYS + 1], at[GPT_WAYS + 1], n = mst_mesh_shape(p->mesh, shape, GPT_WAYS + 1);
    mst_mesh_get_coordinate(p->mesh, at, GPT_WAYS + 1);
    *together = 0;
    for (int i = 0; i < n; i++) {
        const char *name = mst_mesh_dim_name(p->mesh, i);
        int way = way_of(name); /* see check_names */
        p->size[way] = (size_t)shape[i];
        p->at[way] = (size_t)at[i];
        size_t used = strlen(together);
        if (way == GPT_DP || way == GPT_CP)
            snprintf(together + used, room - used, "%s%s", used ? "," : "", name);
    }
}

/* The first stage and the last that have this process's other coordinates. */
static int open_ends(struct gpt_parallel *p) {
    size_t last = p->size[GPT_PP] - 1;
    if (last == 0 || (p->at[GPT_PP] != 0 && p->at[GPT_PP] != last)) return 0;
    int ranks[2];
    ranks[0] = mst_get_global_rank(p->group[GPT_PP], 0);
    ranks[1] = mst_get_global_rank(p->group[GPT_PP], (int)last);
    return gpt_check(mst_new_group(ranks, 2, &p->ends, .name = "embedding"));
}

static int open_groups(struct gpt_parallel *p, const char *together) {
    for (int way = 0; way < GPT_WAYS; way++)
        if (p->size[way] > 1 && gpt_check(mst_mesh_get_group(p->mesh, names[way], &p->group[way]))) return -1;
    if (p->size[GPT_DP] * p->size[GPT_CP] > 1 && gpt_check(mst_mesh_get_group(p->mesh, together, &p->copies)))
        return -1;
    return open_ends(p);
}

void gpt_hush_all_but_first(void) {
    mst_discovery found;
    if (mst_discover(&found) == MST_OK && found.rank > 0) gpt_hush();
}

int gpt_check_alone(bool shared) {
    mst_discovery found;
    if (mst_discover(&found) != MST_OK || found.world_size <= 1) return 0;
    int n = found.world_size;
    gpt_hush_all_but_first();
    return shared ? gpt_fail(
                        "%d processes were started: say with --mesh how they share the work, as in dp=%d to "
                        "train and pp=%d to generate",
                        n, n, n)
                  : gpt_fail("%d processes were started, and this is work for one: start it without %s", n,
                             found.title);
}

/* Each dimension by its name; the library sees to the rest. */
static int check_names(const char *mesh) {
    for (const char *at = mesh; *at; at += strcspn(at, ","), at += *at == ',') {
        size_t length = strcspn(at, "=,");
        char name[8] = "";
        if (length < sizeof name) memcpy(name, at, length);
        if (at[length] != '=' || way_of(name) < 0)
            return gpt_fail(
                "--mesh %s: dimensions are dp, tp, pp and cp, each with its size, as in dp=2,tp=2", mesh);
    }
    return 0;
}

int gpt_parallel_open(struct gpt_parallel *p, const char *mesh, bool deterministic) {
    char together[16];
    *p = (struct gpt_parallel){.size = {1, 1, 1, 1}, .ranks = 1, .deterministic = deterministic};
    if (!mesh) return 0;
    if (check_names(mesh)) {
        gpt_hush_all_but_first();
        return -1;
    }
    if (gpt_check(mst_init())) return -1;
    gpt_memory_share();
    p->rank = mst_get_rank(NULL);
    p->ranks = mst_get_world_size(NULL);
    int st = gpt_check(mst_init_device_mesh_from(mesh, &p->mesh));
    if (gpt_parallel_agree(p, st)) return -1;
    read_mesh(p, together, sizeof together);
    return open_groups(p, together);
}

int gpt_parallel_use(struct gpt_parallel *p, const char *backend) {
    return gpt_parallel_agree(p, gpt_check(mst_set_backend(NULL, backend)));
}

void gpt_parallel_close(struct gpt_parallel *p, bool failed) {
    gpt_data_free(p);
    free(p->ring.block);
    if (!p->mesh || failed) return;
    mst_mesh_free(p->mesh);
    mst_destroy_process_group(NULL);
}

bool gpt_parallel_saves(const struct gpt_parallel *p) {
    return p->at[GPT_DP] == 0 && p->at[GPT_CP] == 0;
}

/* Where each of the parts begins. The head is a product too, which counts in layers: one has 12 width^2. */
static int cut(const struct gpt_config *c, size_t stages, size_t chunks, int *starts) {
    double head = (double)c->vocabulary / (12 * (double)c->width);
    size_t parts = stages * chunks;
    if (c->layers < parts)
        return gpt_fail("%zu layers cannot be cut into %zu parts: take pp=%zu or less%s", c->layers, parts,
                        c->layers / chunks ? c->layers / chunks : 1, chunks > 1 ? ", or fewer --chunks" : "");
    return gpt_check(mst_partition_layers((int)c->layers, (int)parts, starts, .last = head));
}

int gpt_parallel_part(const struct gpt_parallel *p, const struct gpt_config *config, size_t chunk,
                      size_t chunks, struct gpt_part *part) {
    size_t stages = p->size[GPT_PP], k = chunk * stages + p->at[GPT_PP];
    int *starts = calloc(stages * chunks + 1, sizeof *starts);
    if (!starts) return gpt_fail("no memory");
    int st = cut(config, stages, chunks, starts);
    if (!st)
        *part = (struct gpt_part){(size_t)starts[k], (size_t)starts[k + 1], p->at[GPT_TP], p->size[GPT_TP]};
    free(starts);
    return st;
}

struct gpt_hooks gpt_parallel_hooks(struct gpt_parallel *p) {
    struct gpt_hooks hooks = {.context = p};
    if (p->group[GPT_TP]) {
        hooks.reduce_forward = gpt_tensor_forward;
        hooks.reduce_backward = gpt_tensor_backward;
        hooks.wait_backward = gpt_tensor_wait;
    }
    if (p->group[GPT_CP]) {
        hooks.attend = gpt_context_attend;
        hooks.attend_back = gpt_context_attend_back;
    }
    return hooks;
}

int gpt_parallel_sum(struct gpt_parallel *p, double *numbers, size_t count) {
    if (!p->mesh) return 0;
    double begin = gpt_now();
    mst_status st = mst_all_reduce(numbers, count, MST_F64, .deterministic = true);
    p->waited += gpt_now() - begin;
    return gpt_check(st);
}

int gpt_parallel_agree(const struct gpt_parallel *p, int st) {
    int32_t first = st ? p->rank : INT32_MAX;
    if (p->ranks == 1) return st;
    mst_status reduced = mst_all_reduce(&first, 1, MST_I32, .op = MST_MIN);
    if (reduced != MST_OK) return st ? st : gpt_check(reduced);
    if (first == INT32_MAX) return 0;
    if (first != p->rank) gpt_hush();
    return st ? st : gpt_fail("rank %d cannot go on", first);
}
