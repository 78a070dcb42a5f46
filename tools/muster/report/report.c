/*
 * report.c - the command "muster report": reads its options, runs the steps of report.h and writes the
 * outputs.
 */
#include "report/report.h"
#include "cli/options.h"
#include "commands.h"
#include "report/worlds.h"

#include "base/buf.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct report_options {
    const char *output, *json, *merge;
    long world;
};

#define AT(field) offsetof(struct report_options, field)

static const struct opt options[] = {
    {"output", 'o', OPT_STRING, "FILE", "write a self-contained HTML page with all results", AT(output), 0,
     0},
    {"json", 0, OPT_STRING, "FILE", "write the figures of the page as JSON; - is standard output", AT(json),
     0, 0},
    {"merge", 0, OPT_STRING, "FILE",
     "write the traces of all ranks as one trace for Perfetto;\nwithout -o and --json do nothing else",
     AT(merge), 0, 0},
    {"world", 0, OPT_NUMBER, "K",
     "select a world if DIR has traces of several; 1 is the\noldest (default: the newest)", AT(world), 1,
     1000000},
};

static const struct opt_command command = {
    "muster report",
    "DIR",
    "Analyses the traces (MUSTER_TRACE=DIR) and flight recordings of a run.",
    options,
    sizeof options / sizeof *options,
    false,
};

/* An output file: its directory, and its name in there. */
struct location {
    struct stat directory;
    const char *name;
};

/* False if the directory does not exist; opening the file reports that later. */
static bool locate(const char *path, struct location *location) {
    const char *slash = path ? strrchr(path, '/') : NULL;
    size_t n = slash ? (size_t)(slash - path) + 1 : 0;
    if (!path) return false;
    char *directory = n > 0 ? strndup(path, n) : strdup(".");
    bool found = directory && stat(directory, &location->directory) == 0;
    location->name = path + n;
    free(directory);
    return found;
}

static bool same_directory(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool is_input_name(const char *name) {
    int rank, number;
    return report_parse_name(name, REPORT_TRACE_SUFFIX, &rank, &number) ||
           report_parse_name(name, REPORT_FLIGHT_SUFFIX, &rank, &number) || strcmp(name, "limits.json") == 0;
}

/* Rejects outputs that would overwrite an input or each other. */
static int check_outputs(const struct report_options *wanted, const char *dir) {
    const char *const names[] = {"--output", "--json", "--merge"};
    const char *const paths[] = {wanted->output, wanted->json, wanted->merge};
    struct location at[3];
    struct stat inputs;
    bool known = stat(dir, &inputs) == 0;
    for (int i = 0; i < 3; i++) {
        if (!locate(paths[i], &at[i])) at[i].name = NULL;
        if (!at[i].name) continue;
        if (known && same_directory(&at[i].directory, &inputs) && is_input_name(at[i].name))
            return opt_mistake(&command, "%s '%s' would overwrite an input file; name another file", names[i],
                               paths[i]);
        for (int k = 0; k < i; k++)
            if (at[k].name && strcmp(at[k].name, at[i].name) == 0 &&
                same_directory(&at[k].directory, &at[i].directory) && strcmp(paths[i], "/dev/null") != 0)
                return opt_mistake(&command, "%s and %s name the same file, '%s'", names[k], names[i],
                                   paths[i]);
    }
    return EXIT_DONE;
}

static bool is_stdout(const char *path) {
    return path && strcmp(path, "-") == 0;
}

static mst_status write_page(struct report_job *job, const struct msi_buf *summary, const char *path) {
    struct report_output out;
    mst_status st = report_output_open(&out, path);
    if (st != MST_OK) return st;
    report_write_html(job, summary, out.file);
    if (!job->failed) return report_output_commit(&out);
    report_output_discard(&out);
    return msi_fail_memory();
}

static mst_status write_json(const struct msi_buf *summary, const char *path) {
    struct report_output out;
    mst_status st = report_output_open(&out, path);
    if (st != MST_OK) return st;
    fwrite(summary->data, 1, summary->len, out.file);
    fputc('\n', out.file);
    return report_output_commit(&out);
}

static mst_status write_outputs(struct report_job *job, const struct report_options *wanted) {
    struct msi_buf summary = {0};
    mst_status st = MST_OK;
    if (!is_stdout(wanted->output) && !is_stdout(wanted->json) && !is_stdout(wanted->merge))
        report_print(job);
    report_print_warnings(job);
    if (!wanted->output && !wanted->json) return MST_OK;
    report_summary(job, &summary);
    if (summary.failed) st = msi_fail_memory();
    if (st == MST_OK && wanted->json) st = write_json(&summary, wanted->json);
    if (st == MST_OK && wanted->output) st = write_page(job, &summary, wanted->output);
    msi_buf_free(&summary);
    return st;
}

static mst_status analyse(const struct report_worlds *worlds, const struct report_options *wanted) {
    struct report_job job = {0};
    mst_status st = report_read_dir(&job, worlds);
    if (st == MST_OK) {
        report_match_events(&job);
        if (!job.failed) report_make_tables(&job);
        if (!job.failed) report_read_limits(&job);
        st = job.failed ? msi_fail_memory() : write_outputs(&job, wanted);
    }
    report_free(&job);
    return st;
}

int cmd_report(int argc, char **argv) {
    struct report_options wanted = {0};
    struct report_worlds worlds = {0};
    char **operands;
    int n;
    int status = opt_parse(&command, argc, argv, &wanted, &operands, &n);
    if (status != OPT_PROCEED) return status;
    if (n != 1)
        return opt_mistake(&command,
                           n == 0 ? "name the directory that MUSTER_TRACE names" : "it takes one directory");
    status = check_outputs(&wanted, operands[0]);
    if (status != EXIT_DONE) return status;
    mst_status st = report_worlds_find(&worlds, operands[0], wanted.world);
    if (st == MST_OK && wanted.merge) st = report_merge(&worlds, wanted.merge);
    if (st == MST_OK && (!wanted.merge || wanted.output || wanted.json)) st = analyse(&worlds, &wanted);
    report_worlds_free(&worlds);
    if (st == MST_OK) return EXIT_DONE;
    opt_failed(&command);
    return EXIT_FAILED;
}
