/* status.c - "muster status": finds the job, asks its launchers, prints what the ranks do. See status.h. */
#include "status/status.h"

#include "cli/options.h"
#include "commands.h"

#include "base/error.h"
#include "base/settings.h"
#include "wire/url.h"

#include <stdlib.h>
#include <unistd.h>

struct status_options {
    bool json;
    double watch, timeout;
};

#define FIELD(name)              offsetof(struct status_options, name), 0, 0
#define RANGE(name, least, most) offsetof(struct status_options, name), least, most

static const struct opt options[] = {
    {"json", 0, OPT_FLAG, NULL, "print JSON, one object per line", FIELD(json)},
    {"watch", 'w', OPT_SECONDS, "SECONDS", "show it again after each pause, until the job ends",
     RANGE(watch, 0, 86400)},
    {"timeout", 't', OPT_SECONDS, "SECONDS", "how long to wait for the job's store (default 5)",
     RANGE(timeout, 0, 86400)},
};

static const struct opt_command command = {
    .name = "muster status",
    .operands = "[job]",
    .summary =
        "Shows what each rank of a running job does: its state, its call, which rank it waits for. A job\n"
        "is HOST:PORT of its store, the pid of its launcher on this host, or its name (--rdzv-id). The\n"
        "default is the only job of this user on this host; if there are several, they are listed.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "  muster status                      the job on this host\n"
                "  muster status node1:29400 -w 2     a job elsewhere, every two seconds\n",
};

static int failed(mst_status st) {
    opt_failed(&command);
    return st == MST_ERR_TIMEOUT ? EXIT_TIMEOUT : EXIT_FAILED;
}

/* The address of the job that the user means. If it fails and *n is not 0, these n jobs may be meant. */
static mst_status find_job(const char *name, struct job_card *list, int *n,
                           char address[MSI_ADDRESS_TEXT_MAX]) {
    char url[MSI_ADDRESS_TEXT_MAX + 8];
    struct msi_url parsed;
    long long pid;
    *n = 0;
    if (name && strchr(name, ':')) {
        snprintf(url, sizeof url, "tcp://%s%s", name[0] == ':' ? "127.0.0.1" : "", name);
        if (strlen(name) >= MSI_HOST_MAX || strpbrk(name, "/?& ") || msi_url_parse(url, &parsed) != MST_OK)
            return msi_fail(MST_ERR_INVALID, NULL, "a job is HOST:PORT, a pid or a name, not '%.64s'", name);
        msi_address_format(&parsed.address, address);
        return MST_OK;
    }
    if (name && opt_read_number(name, 1, INT32_MAX, &pid) && jobs_of((int)pid, &list[0])) {
        snprintf(address, MSI_ADDRESS_TEXT_MAX, "%s", list[0].address);
        return MST_OK;
    }
    int found = jobs_find(list);
    for (int i = 0; i < found; i++)
        if (!name || !strcmp(list[i].run, name)) list[(*n)++] = list[i];
    if (*n > 1) return MST_ERR_INVALID;
    if (*n == 0)
        return msi_fail(MST_ERR_INVALID, "give HOST:PORT of its store; 'muster run --verbose' prints it",
                        "no launcher of this user on this host runs %s%s", name ? "job " : "a job",
                        name ? name : "");
    snprintf(address, MSI_ADDRESS_TEXT_MAX, "%s", list[0].address);
    return MST_OK;
}

/* Asks once and prints the answer. */
static mst_status show(mst_store *store, const struct status_options *o, const char *address) {
    struct status_job job = {.address = address};
    mst_status st = status_ask(store, &job);
    if (st == MST_OK && job.n_nodes == 0) {
        st = status_print_worlds(store, address, o->json);
    } else if (st == MST_OK) {
        status_read_ranks(&job);
        if (o->json)
            status_print_json(&job);
        else
            status_print(&job);
    }
    status_free(&job);
    return st;
}

/* The end of the store is the end of the job. */
static mst_status watch(mst_store *store, const struct status_options *o, const char *address) {
    struct msi_wait forever = {INT64_MAX, NULL};
    bool clear = isatty(STDOUT_FILENO) && !o->json;
    for (;;) {
        if (clear) fputs("\033[H\033[2J", stdout);
        mst_status st = show(store, o, address);
        fflush(stdout);
        if (st == MST_OK && o->watch > 0)
            st = msi_wait_pause(&forever, (int)(o->watch * 1000) + 1, "muster status");
        if (o->watch > 0 && (st == MST_ERR_STORE_LOST || st == MST_ERR_STORE_ENDED)) {
            if (!o->json) puts("the job has ended");
            return MST_OK;
        }
        if (st != MST_OK || o->watch <= 0) return st;
    }
}

static int connect_and_show(const struct status_options *o, const char *address) {
    char url[MSI_ADDRESS_TEXT_MAX + 8];
    int ms = o->timeout * 1000 < 1 ? 1 : (int)(o->timeout * 1000);
    mst_store *store = NULL;
    snprintf(url, sizeof url, "tcp://%s", address);
    mst_status st = mst_store_open(url, &store, .timeout_ms = ms);
    if (st == MST_OK) st = watch(store, o, address);
    int status = st == MST_OK ? EXIT_DONE : failed(st);
    mst_store_free(store);
    return status;
}

/* Uses the secret of the job if one of its launchers runs on this host. */
static void use_secret(struct job_card *list, const char *address) {
    int n = jobs_find(list);
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].address, address) && list[i].secret[0])
            setenv(MSI_SECRET_VARIABLE, list[i].secret, 1);
}

int cmd_status(int argc, char **argv) {
    struct status_options o = {.timeout = 5};
    char **operands, address[MSI_ADDRESS_TEXT_MAX];
    int n_operands, n;
    int status = opt_parse(&command, argc, argv, &o, &operands, &n_operands);
    if (status != OPT_PROCEED) return status;
    if (n_operands > 1) return opt_mistake(&command, "takes one job, not %d", n_operands);
    struct job_card *list = report_alloc(JOBS_MOST, sizeof *list);
    mst_status st = find_job(n_operands ? operands[0] : NULL, list, &n, address);
    if (st == MST_OK) {
        use_secret(list, address);
        status = connect_and_show(&o, address);
    } else if (n > 1) {
        status_print_cards(list, n, o.json);
        status = EXIT_DONE;
    } else {
        opt_failed(&command);
        status = EXIT_FAILED;
    }
    free(list);
    return status;
}
