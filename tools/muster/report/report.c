/* report.c - "muster report": reads the traces and recordings of a run, says what they say, and makes a page of them. See report.h. */
#include "report/report.h"
#include "cli/options.h"
#include "commands.h"
#include "report/worlds.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct report_options {
    const char *output, *json, *merge;
    long world;
};

#define AT(field) offsetof(struct report_options, field)

static const struct opt options[] = {
    {"output", 'o', OPT_STRING, "FILE",
     "write a page (HTML) that shows everything and needs nothing but itself", AT(output), 0, 0},
    {"json", 0, OPT_STRING, "FILE", "write the figures of the page as JSON; - stands for\nstandard output",
     AT(json), 0, 0},
    {"merge", 0, OPT_STRING, "FILE",
     "write the traces of all ranks as one, for Perfetto;\nwithout -o and --json nothing else is done",
     AT(merge), 0, 0},
    {"world", 0, OPT_NUMBER, "K",
     "which world, from 1, the oldest, where DIR has traces\nof several (default: the newest)", AT(world), 1,
     1000000},
};

static const struct opt_command command = {
    "muster report",
    "DIR",
    "Shows what the traces (MUSTER_TRACE=DIR) and flight recordings of a run say.",
    options,
    sizeof options / sizeof *options,
    false,
};

/* Where a file is, or will be: its directory, and its name there. */
struct place {
    struct stat directory;
    const char *name;
};

/* False: it will come to nothing, and be said later. */
static bool find_place(const char *path, struct place *place) {
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    size_t n = slash != NULL ? (size_t)(slash - path) + 1 : 0;

    if (path == NULL) return false;
    char *directory = n > 0 ? strndup(path, n) : strdup(".");
    bool found = directory != NULL && stat(directory, &place->directory) == 0;
    place->name = path + n;
    free(directory);
    return found;
}

static bool same_directory(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The name of something that is read in the directory of traces. */
static bool is_input(const char *name) {
    int rank, number;

    return page_name_read(name, ".trace.json", &rank, &number) ||
           page_name_read(name, ".flight.json", &rank, &number) || strcmp(name, "limits.json") == 0;
}

/* Files that would take another's place: one of those that are read, or another of those that are written. */
static int check_outputs(const struct report_options *wanted, const char *dir) {
    const char *const names[] = {"--output", "--json", "--merge"};
    const char *const paths[] = {wanted->output, wanted->json, wanted->merge};
    struct place places[3];
    struct stat inputs;
    bool known = stat(dir, &inputs) == 0;

    for (int i = 0; i < 3; i++) {
        if (!find_place(paths[i], &places[i])) places[i].name = NULL;
        if (places[i].name == NULL) continue;
        if (known && same_directory(&places[i].directory, &inputs) && is_input(places[i].name))
            return opt_mistake(&command, "%s '%s' would replace what is read; name another file", names[i],
                               paths[i]);
        for (int k = 0; k < i; k++)
            if (places[k].name != NULL && strcmp(places[k].name, places[i].name) == 0 &&
                same_directory(&places[k].directory, &places[i].directory) &&
                strcmp(paths[i], "/dev/null") != 0)
                return opt_mistake(&command, "%s and %s name the same file, '%s'", names[k], names[i],
                                   paths[i]);
    }
    return EXIT_DONE;
}

static bool is_stdout(const char *path) {
    return path != NULL && strcmp(path, "-") == 0;
}

static int out_of_memory(void) {
    fputs("muster report: out of memory\n", stderr);
    return EXIT_FAILED;
}

static int write_page(struct page_job *job, const struct msi_buf *summary, const char *path) {
    struct page_output out;

    if (!page_create(&out, path)) return EXIT_FAILED;
    page_write(job, summary, out.file);
    if (job->failed) {
        page_discard(&out);
        return out_of_memory();
    }
    return page_save(&out) ? EXIT_DONE : EXIT_FAILED;
}

static int write_json(const struct msi_buf *summary, const char *path) {
    struct page_output out;

    if (!page_create(&out, path)) return EXIT_FAILED;
    fwrite(summary->data, 1, summary->len, out.file);
    fputc('\n', out.file);
    return page_save(&out) ? EXIT_DONE : EXIT_FAILED;
}

static int write_all(struct page_job *job, const struct report_options *wanted) {
    struct msi_buf summary = {0};
    int status = EXIT_DONE;

    if (!is_stdout(wanted->output) && !is_stdout(wanted->json) && !is_stdout(wanted->merge)) page_words(job);
    page_say_warnings(job);
    if (wanted->output == NULL && wanted->json == NULL) return EXIT_DONE;
    page_summary(job, &summary);
    if (summary.failed) status = out_of_memory();
    if (status == EXIT_DONE && wanted->json != NULL) status = write_json(&summary, wanted->json);
    if (status == EXIT_DONE && wanted->output != NULL) status = write_page(job, &summary, wanted->output);
    msi_buf_free(&summary);
    return status;
}

static int show(const struct page_worlds *worlds, const struct report_options *wanted) {
    struct page_job job = {0};
    int status = EXIT_FAILED;

    if (page_read_dir(&job, worlds)) {
        page_pair(&job);
        if (!job.failed) page_tables(&job);
        if (!job.failed) page_limits(&job);
        if (!job.failed) status = write_all(&job, wanted);
    }
    if (job.failed) status = out_of_memory();
    page_free(&job);
    return status;
}

int cmd_report(int argc, char **argv) {
    struct report_options wanted = {0};
    struct page_worlds worlds;
    char **operands;
    int n;

    int status = opt_parse(&command, argc, argv, &wanted, &operands, &n);
    if (status != OPT_PROCEED) return status;
    if (n != 1)
        return opt_mistake(&command, n == 0 ? "which directory? Give the one that MUSTER_TRACE named"
                                            : "it takes one directory");
    status = check_outputs(&wanted, operands[0]);
    if (status != EXIT_DONE) return status;
    if (!page_worlds_find(&worlds, operands[0], wanted.world)) return EXIT_FAILED;
    bool all = wanted.merge == NULL || wanted.output != NULL || wanted.json != NULL;
    if (wanted.merge != NULL) status = page_merge(&worlds, wanted.merge);
    if (all && (wanted.merge == NULL || status == EXIT_DONE)) status = show(&worlds, &wanted);
    page_worlds_free(&worlds);
    return status;
}
