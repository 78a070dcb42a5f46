/* plan.c - makes a plan as the library does and prints it. See info.h. Nothing runs. */
#include "info/info.h"
#include "reduce/reduce.h"

#include "base/error.h"
#include "base/settings.h"
#include "base/units.h"
#include "coll/cost/select.h"
#include "commands.h"

#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t bytes_most = (int64_t)1 << 48;

/* Returns 0, which is not a valid dtype, for an unknown name. */
static mst_dtype find_dtype(const char *name) {
    for (int d = 1; d < MST_DTYPE_COUNT; d++)
        if (!strcmp(mst_dtype_name((mst_dtype)d), name)) return (mst_dtype)d;
    return (mst_dtype)0;
}

static int find_kind(const char *name) {
    for (int kind = 0; kind < MSI_KIND_COUNT; kind++)
        if (msi_planner_any((enum msi_kind)kind) && !strcmp(name, msi_coll_name((enum msi_kind)kind)))
            return kind;
    return -1;
}

static void print_candidates(const struct msi_cost_input *input, const struct msi_request *request,
                             const struct msi_selection *selection) {
    char time[MSI_UNITS_TEXT], moved[MSI_UNITS_TEXT], out[MSI_UNITS_TEXT];
    double raw = (double)input->raw_size, acc = (double)input->acc_size;
    printf("  %-14s %10s %7s %9s %15s %15s\n", "algorithm", "predicted", "rounds", "messages", "busiest rank",
           "leave a host");
    for (size_t i = 0; i < msi_planner_count; i++) {
        struct msi_candidate c;
        if (msi_planners[i].kind != request->kind) continue;
        msi_estimate(input, request, &msi_planners[i], &c);
        const struct msi_formula *f = &c.formula;
        printf("%c %-14s ", c.planner == selection->planner ? '*' : ' ', c.planner->name);
        if (c.unsupported)
            printf("%s\n", c.unsupported);
        else
            printf("%10s %7.0f %9.0f %15s %15s\n", msi_seconds_text(c.seconds, time), f->rounds, f->messages,
                   msi_bytes_text(f->raw * raw + f->acc * acc, moved),
                   msi_bytes_text(f->host_raw * raw + f->host_acc * acc, out));
    }
}

static int print_ref(struct msi_ref ref, size_t count) {
    static const char *const spaces[] = {"in", "out", "raw", "acc", "packed"};
    return printf("%s[%zu..%zu)", spaces[ref.space], ref.at, ref.at + count);
}

static int print_step(const struct msi_plan *plan, const struct msi_step *s) {
    static const char *const verbs[] = {"send",  "receive", "copy",   "begin", "add",
                                        "merge", "end",     "unpack", "pack",  "reduce"};
    int width = printf("%-8s", verbs[s->kind]);
    switch (s->kind) {
    case MSI_SEND:
        width += print_ref(s->src, s->count);
        return width + printf(" to %d", s->peer);
    case MSI_RECV:
        width += print_ref(s->dst, s->count);
        return width + printf(" from %d", s->peer);
    case MSI_PACK:
    case MSI_REDUCE_LOCAL:
        width += print_ref(s->dst, s->count) + printf(" from %d sources, ", s->peer);
        width += print_ref(plan->sources[s->sources], s->count);
        return width + (s->peer > 1 ? printf(" …") - 2 : 0);
    default:
        width += print_ref(s->dst, s->count) + printf(" from ");
        return width + print_ref(s->src, s->count);
    }
}

static void print_steps(const struct msi_plan *plan, const struct msi_cost_input *input) {
    char raw[MSI_UNITS_TEXT], acc[MSI_UNITS_TEXT];
    printf("\nrank %d: %u step%s, scratch %s raw and %s accumulated\n", plan->request.rank, plan->n,
           plan->n == 1 ? "" : "s", msi_bytes_text((double)(plan->scratch[MSI_RAW] * input->raw_size), raw),
           msi_bytes_text((double)(plan->scratch[MSI_ACC] * input->acc_size), acc));
    for (uint32_t i = 0; i < plan->n; i++) {
        printf("%5u  ", i);
        int width = print_step(plan, &plan->steps[i]), shown = 0;
        for (uint32_t k = 0; k < plan->n_edges; k++) {
            if (plan->edges[k].to != i) continue;
            if (shown == 0) printf("%*s after", width < 56 ? 56 - width : 1, "");
            if (shown++ < 8) printf(" %u", plan->edges[k].from);
        }
        if (shown > 8) printf(" … (%d in all)", shown);
        printf("\n");
    }
}

static int print_plan(const struct msi_cost_input *input, struct msi_request *request, const char *dtype) {
    struct msi_selection selection;
    struct msi_plan plan = {0};
    char text[MSI_UNITS_TEXT];
    msi_select(input, request, &selection);
    request->chunk = selection.chunk;
    printf("%s of %s (%zu x %s) among %d ranks on %d host%s\n\n", msi_coll_name(request->kind),
           msi_bytes_text((double)(request->count * input->raw_size), text), request->count, dtype,
           request->size, request->hosts.n, request->hosts.n == 1 ? "" : "s");
    print_candidates(input, request, &selection);
    printf("\nchosen: %s (%s)", selection.planner->name, selection.why);
    if (selection.chunk && selection.chunk < request->count)
        printf(", in chunks of up to %s", msi_bytes_text((double)(selection.chunk * input->raw_size), text));
    printf("\n");
    if (request->hosts.n == 1)
        printf("(ranks of one host use shared memory and need no plan; this is the plan they would have)\n");
    if (msi_plan_make(&plan, selection.planner, request) != MST_OK) {
        fprintf(stderr, "%s\n", mst_error());
        return EXIT_FAILED;
    }
    print_steps(&plan, input);
    msi_plan_free(&plan);
    return EXIT_DONE;
}

/* Fills one host after the other; the last one may have fewer ranks. */
static int *fill_hosts(const struct plan_options *wanted, struct msi_hosts *hosts) {
    long each = (wanted->ranks + wanted->hosts - 1) / wanted->hosts;
    int *of = malloc((size_t)wanted->ranks * sizeof *of);
    if (!of) return NULL;
    for (long r = 0; r < wanted->ranks; r++) of[r] = (int)(r / each);
    *hosts = (struct msi_hosts){of[wanted->ranks - 1] + 1, (int)each, of};
    return of;
}

/* From the options, or else from the environment. */
static mst_status load_tuning(const struct plan_options *wanted, struct msi_tuning *tuning) {
    struct msi_settings settings;
    mst_status st = msi_settings_load(&settings, NULL);
    if (st == MST_OK) st = msi_algo_parse(wanted->algo ? wanted->algo : settings.algo, &tuning->algo);
    const char *model = wanted->model ? wanted->model : settings.model;
    return st == MST_OK && model[0] ? msi_model_read(model, &tuning->model) : st;
}

int info_plan(const struct opt_command *command, const struct plan_options *wanted) {
    mst_dtype dtype = find_dtype(wanted->dtype);
    struct msi_tuning tuning = {.model = msi_model_default};
    struct msi_request request = {
        .size = (int)wanted->ranks, .rank = (int)wanted->rank, .root = (int)wanted->root};
    int64_t bytes;
    int kind = find_kind(wanted->kind);
    if (kind < 0) return opt_mistake(command, "unknown collective '%s'", wanted->kind);
    if (!dtype) return opt_mistake(command, "unknown dtype '%s'", wanted->dtype);
    if (!msi_parse_number(wanted->bytes, true, &bytes) || bytes > bytes_most)
        return opt_mistake(command, "'%s' is not a size; write 4096, 64K, 1M or 2G", wanted->bytes);
    if (wanted->rank >= wanted->ranks || wanted->root >= wanted->ranks)
        return opt_mistake(command, "with %ld ranks, the last rank is %ld", wanted->ranks, wanted->ranks - 1);
    if (wanted->hosts > wanted->ranks)
        return opt_mistake(command, "%ld ranks cannot fill %ld hosts", wanted->ranks, wanted->hosts);
    if (load_tuning(wanted, &tuning) != MST_OK) return opt_failed(command);
    request.kind = (enum msi_kind)kind;
    /* Small floats are accumulated in f32. */
    const struct msi_reducer *reducer = msi_reducer_get(dtype, MST_SUM);
    size_t raw = mst_dtype_size(dtype), acc = reducer ? reducer->acc_size : raw;
    request.count = (size_t)bytes / raw;
    int *of = fill_hosts(wanted, &request.hosts);
    if (!of) return EXIT_FAILED;
    struct msi_cost_input input = {&tuning, raw, acc, wanted->deterministic};
    int exit_status = print_plan(&input, &request, wanted->dtype);
    free(of);
    return exit_status;
}
