/* launch.c - reads the launcher's environment variables. See launch.h. */
#include "bootstrap/launch.h"
#include "base/error.h"
#include "base/units.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *msi_variable(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

mst_status msi_variable_number(const char *name, int least, int most, int *value) {
    const char *text = msi_variable(name);
    if (!text) return MST_OK;
    int64_t number;
    if (!msi_parse_number(text, false, &number) || number < least || number > most)
        return msi_fail(MST_ERR_CONFIG, NULL, "%s='%.200s' is not a whole number from %d to %d", name, text,
                        least, most);
    *value = (int)number;
    return MST_OK;
}

/* Slurm gives batch scripts and interactive shells step numbers near 2^32. */
static bool is_script_step(const char *name) {
    const char *text = name ? msi_variable(name) : NULL;
    return text && strlen(text) >= 10;
}

static bool matches(const struct msi_launcher *row) {
    for (int i = 0; i < 4 && row->needs[i]; i++)
        if (!msi_variable(row->needs[i])) return false;
    for (int i = 0; i < 2 && row->without[i]; i++)
        if (msi_variable(row->without[i])) return false;
    return row->needs[0] && !is_script_step(row->step);
}

/* Reads the number that a rule describes; its variable is set. */
static mst_status read_rule(const struct msi_number_rule *rule, int least, int size, int *value) {
    char host[MSI_HOST_MAX];
    const char *text = msi_variable(rule->name), *own = msi_variable("SM_CURRENT_HOST");
    uint64_t number = 0;
    int node = 0;
    mst_status st = MST_OK;
    if (rule->how == MSI_HOW_NUMBER) return msi_variable_number(rule->name, least, INT_MAX, value);
    if (rule->how == MSI_HOW_ALL) {
        st = msi_variable_number(rule->name, 1, INT_MAX, &node);
        if (st == MST_OK && node == 1) *value = size;
        return st;
    }
    if (rule->how == MSI_HOW_COUNT) st = msi_hosts_json(rule->name, text, 0, host, &number);
    if (rule->how == MSI_HOW_INDEX) st = msi_hosts_json_find(rule->name, text, own ? own : "", &number);
    if (rule->how == MSI_HOW_TASKS) {
        st = msi_variable_number("SLURM_NODEID", 0, INT_MAX, &node);
        if (st == MST_OK) st = msi_tasks_at(rule->name, text, (uint64_t)node, &number);
    }
    if (st == MST_OK) *value = (int)number;
    return st;
}

/* Applies the first rule whose variable is set. */
static mst_status read_number(const struct msi_number_rule rules[MSI_RULES], int least, int size,
                              struct msi_launch_value *found) {
    *found = (struct msi_launch_value){-1, NULL};
    for (int i = 0; i < MSI_RULES && rules[i].name; i++) {
        if (rules[i].how == MSI_HOW_SINGLE) {
            *found = (struct msi_launch_value){least, rules[i].name};
            return MST_OK;
        }
        if (!msi_variable(rules[i].name)) continue;
        found->from = rules[i].name;
        return read_rule(&rules[i], least, size, &found->value);
    }
    return MST_OK;
}

static bool on_one_host(const struct msi_launch *launch) {
    return launch->size.value > 0 && launch->local_size.value == launch->size.value;
}

static mst_status read_host(struct msi_launch *launch, bool *guess) {
    if (msi_variable("MASTER_ADDR")) return MST_OK; /* it overrides the rules */
    for (int i = 0; i < MSI_RULES && launch->launcher->host[i].name; i++) {
        const struct msi_host_rule *rule = &launch->launcher->host[i];
        const char *text = rule->parse ? msi_variable(rule->name) : NULL;
        if (rule->parse ? !text || (rule->several && on_one_host(launch)) : !on_one_host(launch)) continue;
        mst_status st = MST_OK;
        if (rule->parse)
            st = rule->parse(rule->name, text, rule->n, launch->host, NULL);
        else
            strcpy(launch->host, "127.0.0.1");
        if (st != MST_OK) return st;
        launch->host_from = rule->name;
        *guess = rule->guess;
        if (rule->port) launch->port = (struct msi_launch_value){rule->port, launch->launcher->title};
        return MST_OK;
    }
    return MST_OK;
}

static uint64_t hash_text(uint64_t hash, const char *text) { /* FNV-1a */
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
    return (hash ^ 0xff) * 0x100000001b3;
}

/* Hashes the variables that identify the job into a name that fits into a store key. */
static void read_job(struct msi_launch *launch) {
    uint64_t hash = 0xcbf29ce484222325;
    bool any = false;
    for (int i = 0; i < 2 && launch->launcher->job[i]; i++) {
        const char *text = msi_variable(launch->launcher->job[i]);
        if (text) hash = hash_text(hash, text);
        any |= text != NULL;
    }
    if (any)
        snprintf(launch->job, sizeof launch->job, "%s-%016llx", launch->launcher->name,
                 (unsigned long long)hash);
}

int msi_launch_port(const char *job) {
    /* Below Linux's ephemeral ports, above the ports of most services. */
    enum { FIRST = 20000, PORTS = 12768 };
    return FIRST + (int)(hash_text(0xcbf29ce484222325, job) % PORTS);
}

/* Is this process a client of a PMIx server, with the launcher's rank? */
static bool has_pmix(const struct msi_launch *launch) {
    int rank = -1;
    return launch->launcher->depth >= MSI_DEPTH_MPI && msi_variable("PMIX_NAMESPACE") &&
           msi_variable_number("PMIX_RANK", 0, INT_MAX, &rank) == MST_OK && rank >= 0 &&
           rank == launch->rank.value;
}

static enum msi_address_source find_source(const struct msi_launch *launch, bool guess) {
    bool pmi = launch->launcher->pmi && (msi_variable("PMI_FD") || msi_variable("PMI_PORT"));
    if (pmi && (!launch->host[0] || !launch->job[0])) return MSI_ADDRESS_FROM_PMI;
    return (guess || !launch->host[0]) && has_pmix(launch) ? MSI_ADDRESS_FROM_PMIX : MSI_ADDRESS_FROM_ENV;
}

/* Reads all values of one launcher. */
static mst_status read_launcher(const struct msi_launcher *row, struct msi_launch *launch) {
    *launch = (struct msi_launch){.launcher = row, .port.value = -1};
    mst_status st = read_number(row->rank, 0, -1, &launch->rank);
    if (st == MST_OK) st = read_number(row->size, 1, -1, &launch->size);
    int size = launch->size.value;
    bool guess = false;
    if (st == MST_OK) st = read_number(row->local_rank, 0, size, &launch->local_rank);
    if (st == MST_OK) st = read_number(row->local_size, 1, size, &launch->local_size);
    if (st == MST_OK) st = read_host(launch, &guess);
    read_job(launch);
    launch->source = find_source(launch, guess);
    return st;
}

static bool agree(const struct msi_launch *a, const struct msi_launch *b) {
    return a->rank.value == b->rank.value && a->size.value == b->size.value;
}

/* Takes values that this launcher does not give from another one that agrees with it. */
static void complete(struct msi_launch *launch, const struct msi_launch *other) {
    if (launch->local_rank.value < 0) launch->local_rank = other->local_rank;
    if (launch->local_size.value < 0) launch->local_size = other->local_size;
    bool open = !launch->host[0] && launch->source != MSI_ADDRESS_FROM_PMIX;
    if (open && (other->host[0] || other->source != MSI_ADDRESS_FROM_ENV)) {
        strcpy(launch->host, other->host);
        launch->host_from = other->host_from;
        launch->port = other->port;
        launch->source = other->source;
    }
    if (!launch->job[0]) strcpy(launch->job, other->job);
}

static mst_status read_master(struct msi_launch *launch) {
    const char *host = msi_variable("MASTER_ADDR");
    if (host && strlen(host) >= MSI_HOST_MAX)
        return msi_fail(MST_ERR_CONFIG, NULL, "MASTER_ADDR is longer than %d characters", MSI_HOST_MAX - 1);
    if (host) {
        strcpy(launch->host, host);
        launch->host_from = "MASTER_ADDR";
        launch->source = MSI_ADDRESS_FROM_ENV;
    }
    if (msi_variable("MASTER_PORT")) launch->port.from = "MASTER_PORT";
    return msi_variable_number("MASTER_PORT", 0, 65535, &launch->port.value);
}

/* Chooses a port if neither MASTER_PORT nor the launcher gives one. */
static void choose_port(struct msi_launch *launch) {
    if (launch->port.value >= 0 || launch->source != MSI_ADDRESS_FROM_ENV) return;
    if (launch->job[0])
        launch->port = (struct msi_launch_value){msi_launch_port(launch->job), "the job's number"};
    else if (launch->launcher->depth >= MSI_DEPTH_MPI)
        launch->port = (struct msi_launch_value){MSI_DEFAULT_PORT, "the default"};
}

void msi_launch_forgo_pmix(struct msi_launch *launch) {
    if (launch->source != MSI_ADDRESS_FROM_PMIX) return;
    launch->source = MSI_ADDRESS_FROM_ENV;
    choose_port(launch);
}

static bool looked_for(bool discovery, const struct msi_launcher *row) {
    return (discovery || row->depth < MSI_DEPTH_MPI) && matches(row);
}

mst_status msi_launch_find(bool discovery, struct msi_launch *launch) {
    struct msi_launch other;
    const struct msi_launcher *end = msi_launchers + msi_launcher_count - 1; /* no launcher */
    const struct msi_launcher *row = msi_launchers;
    while (row < end && !looked_for(discovery, row)) row++;
    mst_status st = read_launcher(row, launch);
    for (row++; st == MST_OK && row < end; row++) {
        if (!looked_for(discovery, row)) continue;
        /* Ignore errors of an outer launcher. */
        if (read_launcher(row, &other) != MST_OK || !agree(launch, &other)) continue;
        if (launch->launcher->generic && row->depth == MSI_DEPTH_MANAGER) {
            struct msi_launch mpi = *launch;
            *launch = other;
            other = mpi;
            other.source = MSI_ADDRESS_FROM_ENV; /* the manager's PMI may differ from MPICH's */
        }
        complete(launch, &other);
    }
    if (st == MST_OK) st = read_master(launch);
    if (st == MST_OK) choose_port(launch);
    return st;
}

/* A launcher inside another and one with fewer values do not contradict the other. */
static bool contradict(const struct msi_launch *inner, const struct msi_launch *outer) {
    if (agree(inner, outer) || inner->size.value < 0 || outer->size.value < 0) return false;
    if (inner->size.from == outer->size.from) return false; /* the outer launcher does not give a size */
    if (inner->launcher->depth == MSI_DEPTH_MPI) return outer->launcher->depth == MSI_DEPTH_MPI;
    /* RANK and WORLD_SIZE: each process of an outer launcher may have started several ranks, at least one. */
    return inner->launcher->depth == MSI_DEPTH_GIVEN && inner->size.value <= outer->size.value;
}

static mst_status fail_contradiction(const struct msi_launch *a, const struct msi_launch *b) {
    return msi_fail(MST_ERR_CONFIG,
                    "unset the variables of the launcher that did not start this program; .no_discovery or "
                    "MUSTER_DISCOVERY=0 uses only RANK and WORLD_SIZE",
                    "two launchers disagree: %s=%d %s=%d (%s), but %s=%d %s=%d (%s)", a->rank.from,
                    a->rank.value, a->size.from, a->size.value, a->launcher->title, b->rank.from,
                    b->rank.value, b->size.from, b->size.value, b->launcher->title);
}

static mst_status check_below(const struct msi_launch_value *part, const struct msi_launch_value *whole,
                              const char *kind, const char *of, const char *title) {
    if (part->value < 0 || whole->value < 0 || part->value < whole->value) return MST_OK;
    return msi_fail(MST_ERR_CONFIG, "ranks go from 0 to the size less 1",
                    "%s %d does not fit a %s of %d: %s=%d, %s=%d (%s)", kind, part->value, of, whole->value,
                    part->from, part->value, whole->from, whole->value, title);
}

/* RANK or WORLD_SIZE must not contradict the launcher. */
static mst_status check_given(const struct msi_launch *launch, const char *name,
                              const struct msi_launch_value *found) {
    int given = found->value;
    mst_status st = msi_variable_number(name, 0, INT_MAX, &given);
    if (st == MST_OK && given != found->value && found->value >= 0)
        st = msi_fail(MST_ERR_CONFIG, "unset the one that is wrong", "%s=%d contradicts %s=%d (%s)", name,
                      given, found->from, found->value, launch->launcher->title);
    return st;
}

mst_status msi_launch_check(bool discovery, const struct msi_launch *launch) {
    const char *title = launch->launcher->title;
    mst_status st = check_below(&launch->rank, &launch->size, "rank", "world", title);
    if (st == MST_OK) st = check_below(&launch->local_rank, &launch->local_size, "local rank", "host", title);
    if (st == MST_OK && launch->local_size.value > launch->size.value && launch->size.value > 0)
        st = msi_fail(MST_ERR_CONFIG, "a host has no more ranks than the world",
                      "%s=%d does not fit %s=%d (%s)", launch->local_size.from, launch->local_size.value,
                      launch->size.from, launch->size.value, title);
    if (launch->launcher->depth >= MSI_DEPTH_MPI) {
        if (st == MST_OK) st = check_given(launch, "RANK", &launch->rank);
        if (st == MST_OK) st = check_given(launch, "WORLD_SIZE", &launch->size);
    }
    for (size_t i = 0; i < msi_launcher_count && st == MST_OK; i++) {
        struct msi_launch other;
        if (!looked_for(discovery, &msi_launchers[i]) || &msi_launchers[i] == launch->launcher) continue;
        if (read_launcher(&msi_launchers[i], &other) != MST_OK) continue;
        if (contradict(launch, &other)) st = fail_contradiction(launch, &other);
    }
    return st;
}
