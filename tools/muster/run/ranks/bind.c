/* bind.c - divides processors among ranks. See bind.h. The main thread owns the sets. */
#include "run/ranks/bind.h"

#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_GUESS = 1024, CPUS_MOST = 1 << 20, PATH_SIZE = 512, LIST_SIZE = 16384 };

/* A processor that may be used; unknown members are 0. */
struct cpu {
    int id;
    int node, package;
    int core; /* the lowest id of the processors that share it */
};

struct cpus {
    struct cpu *list; /* in the order in which they are divided */
    int n;
};

mst_status bind_read(const char *option, const char *text, enum bind_how *how) {
    static const struct {
        const char *name;
        enum bind_how how;
    } names[] = {{"none", BIND_NONE}, {"cores", BIND_CORES}, {"numa", BIND_NUMA}, {"node", BIND_NUMA}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) { /* "node" is torchrun's name */
        if (strcmp(text, names[i].name) != 0) continue;
        *how = names[i].how;
        return MST_OK;
    }
    return msi_fail(MST_ERR_INVALID, NULL, "--%s takes cores, numa or none, not '%s'", option, text);
}

/* Reads the first line of a file; "" if there is none. */
static void read_line(const char *path, char *line, size_t size) {
    FILE *file = fopen(path, "re");
    if (!file || !fgets(line, (int)size, file)) line[0] = '\0';
    if (file) fclose(file);
}

static int read_topology(const char *system, int cpu, const char *name) {
    char path[PATH_SIZE], line[LIST_SIZE];
    snprintf(path, sizeof path, "%s/cpu/cpu%d/topology/%s", system, cpu, name);
    read_line(path, line, sizeof line);
    return line[0] ? atoi(line) : -1;
}

/* A list of siblings begins with the lowest. */
static struct cpu find_cpu(const char *system, int id) {
    struct cpu cpu = {.id = id, .package = read_topology(system, id, "physical_package_id")};
    cpu.core = read_topology(system, id, "core_cpus_list");
    if (cpu.core < 0) cpu.core = read_topology(system, id, "thread_siblings_list");
    if (cpu.core < 0) cpu.core = id;
    return cpu;
}

/* Reads the next range of a list such as "0-3,8"; false at its end. */
static bool next_range(const char **list, long *from, long *to) {
    char *end;
    if (**list < '0' || **list > '9') return false;
    *from = *to = strtol(*list, &end, 10);
    if (*end == '-') *to = strtol(end + 1, &end, 10);
    *list = *end == ',' ? end + 1 : end;
    return true;
}

static void read_node(const char *system, struct cpus *cpus, int node) {
    char path[PATH_SIZE], line[LIST_SIZE];
    const char *list = line;
    long from, to;
    snprintf(path, sizeof path, "%s/node/node%d/cpulist", system, node);
    read_line(path, line, sizeof line);
    while (next_range(&list, &from, &to))
        for (int i = 0; i < cpus->n; i++)
            if (cpus->list[i].id >= from && cpus->list[i].id <= to) cpus->list[i].node = node;
}

static void find_nodes(const char *system, struct cpus *cpus) {
    char path[PATH_SIZE], online[LIST_SIZE];
    const char *list = online;
    long from, to;
    snprintf(path, sizeof path, "%s/node/online", system);
    read_line(path, online, sizeof online);
    while (next_range(&list, &from, &to))
        for (long node = from; node <= to && node < CPUS_MOST; node++) read_node(system, cpus, (int)node);
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
    if (!cpus->list) return -ENOMEM;
    for (int id = 0; id < (int)set_size * 8; id++)
        if (CPU_ISSET_S((size_t)id, set_size, allowed)) cpus->list[cpus->n++] = find_cpu(system, id);
    find_nodes(system, cpus);
    qsort(cpus->list, (size_t)cpus->n, sizeof cpus->list[0], in_order);
    return 0;
}

/* Is processor i the first of its core, or of its node? */
static bool begins_unit(const struct cpus *cpus, int i, enum bind_how how) {
    const struct cpu *cpu = &cpus->list[i];
    if (i == 0 || cpu[0].node != cpu[-1].node) return true;
    return how == BIND_CORES && (cpu[0].package != cpu[-1].package || cpu[0].core != cpu[-1].core);
}

static void fill_set(const struct bind *bind, int rank, const struct cpus *cpus, int units) {
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
    for (int rank = 0; bind->sets && rank < n; rank++) fill_set(bind, rank, &cpus, units);
    free(cpus.list);
    return bind->sets ? 0 : -ENOMEM;
}

cpu_set_t *bind_allowed(size_t *set_size) {
    for (size_t n = FIRST_GUESS; n <= CPUS_MOST; n *= 2) {
        cpu_set_t *set = CPU_ALLOC(n);
        *set_size = CPU_ALLOC_SIZE(n);
        if (!set || sched_getaffinity(0, *set_size, set) == 0) return set;
        int error = errno;
        CPU_FREE(set);
        errno = error;
        if (error != EINVAL) return NULL; /* EINVAL: the kernel knows more processors */
    }
    return NULL;
}

mst_status bind_open(struct bind *bind, enum bind_how how, int n) {
    size_t size;
    *bind = (struct bind){.how = how, .n = n};
    if (how == BIND_NONE) return MST_OK;
    cpu_set_t *allowed = bind_allowed(&size);
    int error = allowed ? -bind_share(bind, how, n, "/sys/devices/system", allowed, size) : errno;
    if (allowed) CPU_FREE(allowed);
    return error ? msi_fail_errno(error, "cannot determine which processors the ranks may use") : MST_OK;
}

void bind_close(struct bind *bind) {
    free(bind->sets);
}

const cpu_set_t *bind_of(const struct bind *bind, int local_rank) {
    if (!bind->sets) return NULL;
    return (const cpu_set_t *)(const void *)(bind->sets + (size_t)local_rank * bind->set_size);
}

char *bind_describe(const struct bind *bind, int local_rank, char *text, size_t size) {
    const cpu_set_t *set = bind_of(bind, local_rank);
    int end = (int)bind->set_size * 8;
    size_t len = 0;
    text[0] = '\0';
    for (int from = 0; set && from < end && len < size; from++) {
        int to = from;
        if (!CPU_ISSET_S((size_t)from, bind->set_size, set)) continue;
        while (to + 1 < end && CPU_ISSET_S((size_t)to + 1, bind->set_size, set)) to++;
        len += (size_t)snprintf(text + len, size - len, to > from ? "%s%d-%d" : "%s%d", len > 0 ? "," : "",
                                from, to);
        from = to;
    }
    return text;
}
