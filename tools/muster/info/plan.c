/* plan.c - see plan.h. Plans are made as the library makes them; nothing runs. */
#include "info/plan.h"

#include "base/error.h"
#include "base/settings.h"
#include "coll/cost/select.h"
#include "commands.h"

#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct element {
    const char *name;
    size_t raw, acc;
};

/* 16-bit and 8-bit floats are added up in f32. */
static const struct element elements[] = {
#define IS_SMALL_FLOAT(number)             ((number) >= 3 && (number) <= 6)
#define ELEMENT(number, name, bytes, text) {text, bytes, IS_SMALL_FLOAT(number) ? 4 : (bytes)},
    MST_DTYPE_TABLE(ELEMENT)
#undef ELEMENT
};

static const struct element *find_element(const char *name) {
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
        if (!strcmp(elements[i].name, name)) return &elements[i];
    return NULL;
}

static int find_kind(const char *name) {
    for (int kind = 0; kind < MSI_KIND_COUNT; kind++)
        if (msi_planner_any((enum msi_kind)kind) && !strcmp(name, msi_coll_name((enum msi_kind)kind)))
            return kind;
    return -1;
}

/* "64", "64K", "1M", "2G": powers of 1024. */
static bool read_bytes(const char *text, size_t *bytes) {
    char *end;
    if (*text < '0' || *text > '9') return false;
    unsigned long long n = strtoull(text, &end, 10);
    const char *units = "KMGT", *unit = *end ? strchr(units, *end & ~0x20) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    if (unit) end++;
    if (*end || n > (1ull << 48) >> shift) return false;
    *bytes = (size_t)(n << shift);
    return true;
}

static const char *show_bytes(double bytes, char text[32]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    for (; bytes >= 1024 && unit < 4; unit++) bytes /= 1024;
    snprintf(text, 32, bytes == (double)(long)bytes ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
    return text;
}

static const char *show_time(double seconds, char text[32]) {
    if (seconds < 1e-3)
        snprintf(text, 32, "%.1f us", seconds * 1e6);
    else
        snprintf(text, 32, seconds < 1 ? "%.1f ms" : "%.2f s", seconds < 1 ? seconds * 1e3 : seconds);
    return text;
}

static void print_candidates(const struct msi_cost_input *input, const struct msi_request *request,
                             const struct msi_selection *selection) {
    char time[32], moved[32], out[32];
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
            printf("%10s %7.0f %9.0f %15s %15s\n", show_time(c.seconds, time), f->rounds, f->messages,
                   show_bytes(f->raw * raw + f->acc * acc, moved),
                   show_bytes(f->host_raw * raw + f->host_acc * acc, out));
    }
}

static int print_ref(struct msi_ref ref, size_t count) {
    static const char *const spaces[] = {"in", "out", "raw", "acc"};
    return printf("%s[%zu..%zu)", spaces[ref.space], ref.at, ref.at + count);
}

static int print_step(const struct msi_plan *plan, const struct msi_step *s) {
    static const char *const verbs[] = {"send", "receive", "copy", "begin", "add", "merge", "end", "fold"};
    int width = printf("%-8s", verbs[s->kind]);
    switch (s->kind) {
    case MSI_SEND:
        width += print_ref(s->src, s->count);
        return width + printf(" to %d", s->peer);
    case MSI_RECV:
        width += print_ref(s->dst, s->count);
        return width + printf(" from %d", s->peer);
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
    char raw[32], acc[32];
    printf("\nrank %d: %u step%s, scratch %s raw and %s accumulated\n", plan->request.rank, plan->n,
           plan->n == 1 ? "" : "s", show_bytes((double)(plan->scratch[MSI_RAW] * input->raw_size), raw),
           show_bytes((double)(plan->scratch[MSI_ACC] * input->acc_size), acc));
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

static int print_plan(const struct msi_cost_input *input, struct msi_request *request, const char *element) {
    struct msi_selection selection;
    struct msi_plan plan = {0};
    char text[32];
    msi_select(input, request, &selection);
    request->chunk = selection.chunk;
    printf("%s of %s (%zu x %s) among %d ranks on %d host%s\n\n", msi_coll_name(request->kind),
           show_bytes((double)(request->count * input->raw_size), text), request->count, element,
           request->size, request->hosts.n, request->hosts.n == 1 ? "" : "s");
    print_candidates(input, request, &selection);
    printf("\nchosen: %s (%s)", selection.planner->name, selection.why);
    if (selection.chunk && selection.chunk < request->count)
        printf(", in pieces of up to %s", show_bytes((double)(selection.chunk * input->raw_size), text));
    printf("\n");
    if (request->hosts.n == 1)
        printf(
            "(ranks of one host use shared memory directly and need no plan; this is what one would be)\n");
    if (msi_plan_make(&plan, selection.planner, request) != MST_OK) {
        fprintf(stderr, "%s\n", mst_error());
        return EXIT_FAILED;
    }
    print_steps(&plan, input);
    msi_plan_free(&plan);
    return EXIT_DONE;
}

/* Hosts that are filled one after the other, the last of them perhaps not quite. */
static int *fill_hosts(const struct plan_options *wanted, struct msi_hosts *hosts) {
    long each = (wanted->ranks + wanted->hosts - 1) / wanted->hosts;
    int *of = malloc((size_t)wanted->ranks * sizeof *of);
    if (!of) return NULL;
    for (long r = 0; r < wanted->ranks; r++) of[r] = (int)(r / each);
    *hosts = (struct msi_hosts){of[wanted->ranks - 1] + 1, (int)each, of};
    return of;
}

/* As asked for, or else as the environment has it. */
static mst_status load_tuning(const struct plan_options *wanted, struct msi_tuning *tuning) {
    struct msi_settings settings;
    mst_status st = msi_settings_load(&settings, NULL);
    if (st == MST_OK) st = msi_algo_parse(wanted->algo ? wanted->algo : settings.algo, &tuning->algo);
    const char *model = wanted->model ? wanted->model : settings.model;
    return st == MST_OK && model[0] ? msi_model_read(model, &tuning->model) : st;
}

int info_plan(const struct opt_command *command, const struct plan_options *wanted) {
    const struct element *element = find_element(wanted->dtype);
    struct msi_tuning tuning = {.model = msi_model_default};
    struct msi_request request = {
        .size = (int)wanted->ranks, .rank = (int)wanted->rank, .root = (int)wanted->root};
    size_t bytes;
    int kind = find_kind(wanted->kind);
    if (kind < 0) return opt_mistake(command, "there is no collective '%s'", wanted->kind);
    if (!element) return opt_mistake(command, "there is no dtype '%s'", wanted->dtype);
    if (!read_bytes(wanted->bytes, &bytes))
        return opt_mistake(command, "'%s' is no number of bytes; write 4096, 64K, 1M or 2G", wanted->bytes);
    if (wanted->rank >= wanted->ranks || wanted->root >= wanted->ranks)
        return opt_mistake(command, "among %ld ranks the last is rank %ld", wanted->ranks, wanted->ranks - 1);
    if (wanted->hosts > wanted->ranks)
        return opt_mistake(command, "%ld ranks do not fill %ld hosts", wanted->ranks, wanted->hosts);
    if (load_tuning(wanted, &tuning) != MST_OK) return opt_mistake(command, "%s", mst_last_error()->message);
    request.kind = (enum msi_kind)kind;
    request.count = bytes / element->raw;
    int *of = fill_hosts(wanted, &request.hosts);
    if (!of) return EXIT_FAILED;
    struct msi_cost_input input = {&tuning, element->raw, element->acc, wanted->deterministic};
    int exit_status = print_plan(&input, &request, element->name);
    free(of);
    return exit_status;
}
