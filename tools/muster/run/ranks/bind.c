/* bind.c - see bind.h. The main thread makes and owns it; children only read it, before they exec. */
#include "run/ranks/bind.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_GUESS = 1024, AT_MOST = 1 << 20, PATH_SIZE = 512, LIST_SIZE = 16384 };

static const char *const words[] = {[BIND_NONE] = "none", [BIND_CORES] = "cores", [BIND_NUMA] = "numa"};

/* A processor that may be used; what is unknown is 0. */
struct cpu {
    int id;
    int node, package;
    int core; /* the lowest of the processors that share it */
};

struct cpus {
    struct cpu *list; /* in the order in which they are shared out */
    int n;
};

int bind_read(const char *option, const char *text, enum bind_how *how, char *why, size_t why_size) {
    for (int i = BIND_NONE; i <= BIND_NUMA; i++) {
        if (strcmp(text, words[i]) != 0) continue;
        *how = (enum bind_how)i;
        return 0;
    }
    if (strcmp(text, "node") == 0) { /* torchrun's word */
        *how = BIND_NUMA;
        return 0;
    }
    snprintf(why, why_size, "--%s takes cores, numa or none, not '%s'", option, text);
    return -1;
}

/* The first line of a file, "" where there is none. */
static void read_line(const char *path, char *line, size_t size) {
    FILE *file = fopen(path, "re");

    line[0] = '\0';
    if (file == NULL) return;
    if (fgets(line, (int)size, file) == NULL) line[0] = '\0';
    fclose(file);
}

static int read_fact(const char *system, int cpu, const char *name) {
    char path[PATH_SIZE], line[LIST_SIZE];

    snprintf(path, sizeof path, "%s/cpu/cpu%d/topology/%s", system, cpu, name);
    read_line(path, line, sizeof line);
    return line[0] != '\0' ? atoi(line) : -1;
}

/* A list of siblings begins with the lowest. */
static struct cpu find_cpu(const char *system, int id) {
    struct cpu cpu = {.id = id, .package = read_fact(system, id, "physical_package_id")};

    cpu.core = read_fact(system, id, "core_cpus_list");
    if (cpu.core < 0) cpu.core = read_fact(system, id, "thread_siblings_list");
    if (cpu.core < 0) cpu.core = id;
    return cpu;
}

static void set_node(struct cpus *cpus, long from, long to, int node) {
    for (int i = 0; i < cpus->n; i++)
        if (cpus->list[i].id >= from && cpus->list[i].id <= to) cpus->list[i].node = node;
}

/* list is "0-3,8" */
static void read_node(struct cpus *cpus, const char *list, int node) {
    while (*list >= '0' && *list <= '9') {
        char *end;
        long from = strtol(list, &end, 10), to = from;

        if (*end == '-') to = strtol(end + 1, &end, 10);
        set_node(cpus, from, to, node);
        list = *end == ',' ? end + 1 : end;
    }
}

/* online is "0-1,4": the nodes there are. */
static void find_nodes(const char *system, struct cpus *cpus) {
    char path[PATH_SIZE], online[LIST_SIZE], line[LIST_SIZE];
    const char *at = online;

    snprintf(path, sizeof path, "%s/node/online", system);
    read_line(path, online, sizeof online);
    while (*at >= '0' && *at <= '9') {
        char *end;
        long from = strtol(at, &end, 10), to = from;

        if (*end == '-') to = strtol(end + 1, &end, 10);
        for (long node = from; node <= to && node < AT_MOST; node++) {
            snprintf(path, sizeof path, "%s/node/node%ld/cpulist", system, node);
            read_line(path, line, sizeof line);
            read_node(cpus, line, (int)node);
        }
        at = *end == ',' ? end + 1 : end;
    }
}

static int in_order(const void *a, const void *b) {
    const struct cpu *x = a, *y = b;

    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    if (x->package != y->package) return x->package < y->package ? -1 : 1;
    if (x->core != y->core) return x->core < y->core ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int find_cpus(struct cpus *cpus, const char *system, const cpu_set_t *allowed, size_t set_size) {
    *cpus = (struct cpus){.list = calloc((size_t)CPU_COUNT_S(set_size, allowed) + 1, sizeof cpus->list[0])};
    if (cpus->list == NULL) return -ENOMEM;
    for (int id = 0; id < (int)set_size * 8; id++)
        if (CPU_ISSET_S((size_t)id, set_size, allowed)) cpus->list[cpus->n++] = find_cpu(system, id);
    find_nodes(system, cpus);
    qsort(cpus->list, (size_t)cpus->n, sizeof cpus->list[0], in_order);
    return 0;
}

/* Is i the first of its core, or of its node? */
static bool begins_unit(const struct cpus *cpus, int i, enum bind_how how) {
    const struct cpu *cpu = &cpus->list[i];

    if (i == 0 || cpu[0].node != cpu[-1].node) return true;
    return how == BIND_CORES && (cpu[0].package != cpu[-1].package || cpu[0].core != cpu[-1].core);
}

static void give(const struct bind *bind, int rank, const struct cpus *cpus, int units) {
    long from = (long)rank * units / bind->n, to = ((long)rank + 1) * units / bind->n;
    cpu_set_t *set = (cpu_set_t *)(void *)(bind->sets + (size_t)rank * bind->set_size);
    int unit = -1;

    if (to == from) to++;
    for (int i = 0; i < cpus->n; i++) {
        unit += begins_unit(cpus, i, bind->how);
        if (unit >= from && unit < to) CPU_SET_S((size_t)cpus->list[i].id, bind->set_size, set);
    }
}

int bind_share(struct bind *bind, enum bind_how how, int n, const char *system, const cpu_set_t *allowed,
               size_t set_size) {
    struct cpus cpus;
    int units = 0;
    int rc = find_cpus(&cpus, system, allowed, set_size);

    if (rc != 0) return rc;
    *bind = (struct bind){.how = how, .n = n, .set_size = set_size, .sets = calloc((size_t)n, set_size)};
    for (int i = 0; i < cpus.n; i++) units += begins_unit(&cpus, i, how);
    for (int rank = 0; bind->sets != NULL && rank < n; rank++) give(bind, rank, &cpus, units);
    free(cpus.list);
    return bind->sets != NULL ? 0 : -ENOMEM;
}

int bind_open(struct bind *bind, enum bind_how how, int n) {
    *bind = (struct bind){.how = how, .n = n};
    if (how == BIND_NONE) return 0;
    for (size_t room = FIRST_GUESS; room <= AT_MOST; room *= 2) {
        cpu_set_t *allowed = CPU_ALLOC(room);
        size_t size = CPU_ALLOC_SIZE(room);
        int rc = allowed != NULL ? 0 : -ENOMEM;

        if (rc == 0 && sched_getaffinity(0, size, allowed) != 0) rc = -errno;
        if (rc == 0) rc = bind_share(bind, how, n, "/sys/devices/system", allowed, size);
        CPU_FREE(allowed);
        if (rc != -EINVAL) return rc; /* else the kernel knows more processors than fit */
    }
    return -EINVAL;
}

void bind_close(struct bind *bind) {
    free(bind->sets);
    *bind = (struct bind){0};
}

const cpu_set_t *bind_of(const struct bind *bind, int local_rank) {
    if (bind->sets == NULL) return NULL;
    return (const cpu_set_t *)(const void *)(bind->sets + (size_t)local_rank * bind->set_size);
}

char *bind_describe(const struct bind *bind, int local_rank, char *text, size_t size) {
    const cpu_set_t *set = bind_of(bind, local_rank);
    int end = (int)bind->set_size * 8;
    size_t len = 0;

    text[0] = '\0';
    for (int from = 0; set != NULL && from < end && len < size; from++) {
        int to = from;

        if (!CPU_ISSET_S((size_t)from, bind->set_size, set)) continue;
        while (to + 1 < end && CPU_ISSET_S((size_t)to + 1, bind->set_size, set)) to++;
        len += (size_t)snprintf(text + len, size - len, to > from ? "%s%d-%d" : "%s%d", len > 0 ? "," : "",
                                from, to);
        from = to;
    }
    return text;
}
