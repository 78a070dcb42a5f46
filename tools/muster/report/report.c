/*
 * report.c - the command "muster report": reads its options, runs the steps of report.h and writes the
 * outputs.
 */
#include "report/report.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "commands.h"
#include "report/worlds.h"

#include <stdlib.h>
#include <string.h>

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
    .name = "muster report",
    .operands = "DIR",
    .summary =
        "Shows where the time of a run went, and which rank is behind in a job that hangs. DIR has the\n"
        "traces of the ranks (muster run --trace DIR) or, after a failure, their last operations.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .examples = "  muster run -n 4 --trace out ./program   write traces to the directory out\n"
                "  muster report out                       print a summary\n"
                "  muster report out -o page.html          write a page to open in a browser\n",
};

/* An absolute path without links; NULL if its directory does not exist, which opening the file reports. */
static char *canonical(const char *path) {
    const char *slash = strrchr(path, '/');
    char *directory = report_format("%.*s/.", slash ? (int)(slash - path) : 1, slash ? path : ".");
    char *found = realpath(directory, NULL);
    char *whole = found ? report_format("%s/%s", found, slash ? slash + 1 : path) : NULL;
    free(directory);
    free(found);
    return whole;
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
    char *inputs = realpath(dir, NULL), *at[3] = {NULL};
    int status = EXIT_DONE;
    for (int i = 0; i < 3 && status == EXIT_DONE; i++) {
        at[i] = paths[i] ? canonical(paths[i]) : NULL;
        if (!at[i]) continue;
        const char *name = strrchr(at[i], '/') + 1;
        size_t len = (size_t)(name - at[i]) - 1;
        if (inputs && strlen(inputs) == len && memcmp(at[i], inputs, len) == 0 && is_input_name(name))
            status = opt_mistake(&command, "%s '%s' would overwrite an input file; name another file",
                                 names[i], paths[i]);
        for (int k = 0; k < i && status == EXIT_DONE; k++)
            if (at[k] && strcmp(at[k], at[i]) == 0 && strcmp(paths[i], "/dev/null") != 0)
                status =
                    opt_mistake(&command, "%s and %s name the same file, '%s'", names[k], names[i], paths[i]);
    }
    for (int i = 0; i < 3; i++) free(at[i]);
    free(inputs);
    return status;
}

static bool is_stdout(const char *path) {
    return path && strcmp(path, "-") == 0;
}

/* Writes the page, or the summary as JSON if job is NULL. */
static mst_status write_output(const char *path, const struct report_job *job,
                               const struct msi_buf *summary) {
    FILE *to;
    mst_status st = output_file_open(path, &to);
    if (st != MST_OK) return st;
    if (job) {
        report_write_html(job, summary, to);
    } else {
        fwrite(summary->data, 1, summary->len, to);
        fputc('\n', to);
    }
    return output_file_commit(to, path);
}

static mst_status write_outputs(const struct report_job *job, const struct report_options *wanted) {
    struct msi_buf summary = {0};
    mst_status st = MST_OK;
    if (!is_stdout(wanted->output) && !is_stdout(wanted->json) && !is_stdout(wanted->merge))
        report_print(job);
    report_print_warnings(job);
    if (!wanted->output && !wanted->json) return MST_OK;
    report_summary(job, &summary);
    if (summary.failed) report_no_memory();
    if (wanted->json) st = write_output(wanted->json, NULL, &summary);
    if (st == MST_OK && wanted->output) st = write_output(wanted->output, job, &summary);
    msi_buf_free(&summary);
    return st;
}

static mst_status analyse(const struct report_worlds *worlds, const struct report_options *wanted) {
    struct report_job job = {0};
    mst_status st = report_read_dir(&job, worlds);
    if (st == MST_OK) {
        report_match_events(&job);
        report_make_rows(&job);
        report_make_cells(&job);
        report_make_sites(&job);
        report_read_limits(&job);
        st = write_outputs(&job, wanted);
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
