/*
 * info.c - "muster info": the command line, and the settings. It starts nothing and connects to nothing.
 */
#include "info/info.h"
#include "base/error.h"
#include "base/settings.h"
#include "commands.h"
#include "info/schedule/schedule.h"

#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_WIDTH = 90 };

struct info_options {
    bool json, env, man_table, operations;
    const char *mesh; /* NULL: not given */
    struct plan_options plan;
    struct schedule_options schedule;
};

#define FIELD(name) offsetof(struct info_options, name), 0, 0
#define PLAN(name)  offsetof(struct info_options, plan.name)
#define SCHED(name) offsetof(struct info_options, schedule.name)

static const struct opt options[] = {
    {"json", 0, OPT_FLAG, NULL, "print JSON", FIELD(json)},
    {"env", 0, OPT_FLAG, NULL, "list every MUSTER_* setting: its value, its default and its meaning",
     FIELD(env)},
    {"man-table", 0, OPT_FLAG | OPT_HIDDEN, NULL, "with --env: print the list as source of the manual page",
     FIELD(man_table)},
    {"operations", 0, OPT_FLAG, NULL, "show which operations each backend does itself and which are composed",
     FIELD(operations)},
    {"mesh", 0, OPT_STRING, "SHAPE", "draw the ranks and groups of a mesh such as dp=2,pp=2,tp=2",
     FIELD(mesh)},
    {"plan", 0, OPT_STRING, "COLLECTIVE",
     "show the algorithm for a collective such as all_reduce, why it\n"
     "is chosen, and the steps of one rank",
     PLAN(kind), 0, 0},
    {"ranks", 0, OPT_NUMBER, "N", "with --plan: N ranks (default 4)", PLAN(ranks), 1, 100000},
    {"hosts", 0, OPT_NUMBER, "N", "on N hosts (default 1)", PLAN(hosts), 1, 100000},
    {"bytes", 0, OPT_STRING, "SIZE", "the size of the tensor, such as 64K or 1M (default 1M)", PLAN(bytes), 0,
     0},
    {"dtype", 0, OPT_STRING, "DTYPE", "the type of its elements (default f32)", PLAN(dtype), 0, 0},
    {"rank", 0, OPT_NUMBER, "R", "show the steps of rank R (default 0)", PLAN(rank), 0, 99999},
    {"root", 0, OPT_NUMBER, "R", "the root (default 0)", PLAN(root), 0, 99999},
    {"algo", 0, OPT_STRING, "LIST", "as with MUSTER_ALGO=LIST, such as all_reduce:ring,broadcast:tree",
     PLAN(algo), 0, 0},
    {"model", 0, OPT_STRING, "FILE", "use the cost model that `muster tune` wrote", PLAN(model), 0, 0},
    {"deterministic", 0, OPT_FLAG, NULL, "only algorithms that reduce in rank order", PLAN(deterministic), 0,
     0},
    {"schedule", 0, OPT_STRING, "stream|forward|gpipe|1f1b|interleaved", "draw a pipeline schedule",
     SCHED(kind), 0, 0},
    {"stages", 0, OPT_NUMBER, "N", "with --schedule: N stages (default 4)", SCHED(stages), 1, 4096},
    {"microbatches", 0, OPT_NUMBER, "N", "N micro-batches (default twice the stages; stream: 1 per batch)",
     SCHED(micros), 1, 1 << 20},
    {"chunks", 0, OPT_NUMBER, "N", "interleaved: N parts of the model on each stage (default 2)",
     SCHED(chunks), 1, 1024},
    {"backward", 0, OPT_NUMBER, "N", "a backward takes as long as N forwards (default 1)", SCHED(backward), 1,
     16},
    {"batches", 0, OPT_NUMBER, "N", "stream: N batches (default: the value of --inner)", SCHED(batches), 1,
     1 << 20},
    {"tokens", 0, OPT_NUMBER, "N", "stream: N new tokens of each (default 4)", SCHED(tokens), 1, 1 << 20},
    {"inner", 0, OPT_NUMBER, "N", "stream: N batches alternate at each token (default: the stages)",
     SCHED(inner), 1, 1 << 20},
    {"stage", 0, OPT_NUMBER, "S", "list all actions of stage S", SCHED(stage), 0, 4095},
    {"svg", 0, OPT_STRING, "FILE", "write an SVG picture to a file; '-' is standard output", SCHED(svg), 0,
     0},
};

static const struct opt_command command = {
    .name = "muster info",
    .operands = "",
    .summary =
        "Shows how muster was built and what it finds on this machine. With --env, --operations, --mesh,\n"
        "--plan or --schedule it shows settings, backends, meshes, algorithms or pipelines instead.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .examples = "  muster info                                          what muster finds here\n"
                "  muster info --env                                    all settings and their values\n"
                "  muster info --plan all_reduce --hosts 2 --ranks 8    the algorithm, and why\n"
                "  muster info --mesh dp=2,tp=4                         ranks and groups of a mesh\n"
                "  muster info --schedule 1f1b --stages 4               what each stage does when\n",
};

int info_print_json(struct msi_buf *json) {
    bool ok = !json->failed;
    if (ok)
        puts(msi_buf_text(json));
    else
        fputs("muster info: out of memory\n", stderr);
    msi_buf_free(json);
    return ok ? EXIT_DONE : EXIT_FAILED;
}

/* The value of a setting; returns number if it is a number. */
static const char *setting_text(const struct msi_settings *settings, const struct msi_setting_row *row,
                                char number[24]) {
    const char *field = (const char *)settings + row->offset;
    int64_t value;
    if (row->kind == MSI_SETTING_TEXT) return field;
    memcpy(&value, field, sizeof value);
    if (row->kind == MSI_SETTING_AUTO && value == 0) return "auto";
    snprintf(number, 24, "%lld", (long long)value);
    return number;
}

static void add_settings(struct msi_json_out *out, const struct msi_settings *settings) {
    msi_json_member_object(out, "settings");
    for (size_t i = 0; i < msi_setting_count; i++) {
        const struct msi_setting_row *row = &msi_setting_rows[i];
        char number[24];
        const char *text = setting_text(settings, row, number);
        msi_json_member_object(out, row->name);
        msi_json_put_key(out, "value");
        if (text == number)
            msi_json_put_raw(out, msi_cstr(text));
        else
            msi_json_put_string(out, text);
        msi_json_member_string(out, "default", row->preset);
        msi_json_member_bool(out, "set", getenv(row->name) != NULL);
        msi_json_member_string(out, "help", row->help);
        msi_json_put_object_end(out);
    }
    msi_json_put_object_end(out);
}

void info_print_wrapped(int indent, int column, const char *text) {
    while (*text) {
        int len = (int)strcspn(text, " ");
        if (column > indent && column + 1 + len > LINE_WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
        }
        column += printf("%s%.*s", column > indent ? " " : "", len, text);
        text += len;
        text += strspn(text, " ");
    }
    printf("\n");
}

/* "NAME=value (default)", "NAME=value (the default is ...)", or "NAME is not set"; then the meaning. */
static void print_settings(const struct msi_settings *settings) {
    for (size_t i = 0; i < msi_setting_count; i++) {
        const struct msi_setting_row *row = &msi_setting_rows[i];
        char number[24];
        const char *value = setting_text(settings, row, number);
        if (!getenv(row->name) && !*value)
            printf("%s is not set\n", row->name);
        else if (!getenv(row->name))
            printf("%s=%s (default)\n", row->name, value);
        else
            printf("%s=%s (set; the default is %s)\n", row->name, value,
                   *row->preset ? row->preset : "empty");
        printf("    ");
        info_print_wrapped(4, 4, row->help);
    }
}

static void print_man_table(void) {
    for (size_t i = 0; i < msi_setting_count; i++) {
        const struct msi_setting_row *row = &msi_setting_rows[i];
        printf(".It Ev %s\n%s\n", row->name, row->help);
        if (*row->preset) printf("Default:\n.Ql %s .\n", row->preset);
    }
}

/* Prints the whole report, or with --env the settings. */
static int print_report(const struct info_options *wanted, const struct msi_settings *settings) {
    struct msi_buf text = {0};
    struct msi_json_out out = msi_json_to(&text);
    if (!wanted->json) {
        if (wanted->env)
            print_settings(settings);
        else
            info_print_found(settings);
        return EXIT_DONE;
    }
    msi_json_put_object(&out);
    if (!wanted->env) info_add_found(&out, settings);
    add_settings(&out, settings);
    msi_json_put_object_end(&out);
    return info_print_json(&text);
}

static const struct info_options defaults = {.plan = {.bytes = "1M", .dtype = "f32", .ranks = 4, .hosts = 1},
                                             .schedule = {.stage = -1, .backward = 1}};

static bool is_given(const struct opt *option, const struct info_options *wanted) {
    const char *value = (const char *)wanted + option->offset,
               *preset = (const char *)&defaults + option->offset;
    _Static_assert(sizeof(long) == sizeof(const char *), "numbers and strings are compared alike");
    return memcmp(value, preset, option->value ? sizeof(long) : sizeof(bool)) != 0;
}

/* Rejects options that would have no effect, and more than one request. */
static int check_options(const struct info_options *wanted) {
    const char *const requests[] = {wanted->plan.kind ? "plan" : NULL, wanted->mesh ? "mesh" : NULL,
                                    wanted->schedule.kind ? "schedule" : NULL,
                                    wanted->operations ? "operations" : NULL, wanted->env ? "env" : NULL};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        if (first && requests[i])
            return opt_mistake(&command, "--%s and --%s cannot be combined", first, requests[i]);
        if (requests[i]) first = requests[i];
    }
    if (wanted->man_table && !wanted->env) return opt_mistake(&command, "--man-table needs --env");
    if (wanted->json && (wanted->plan.kind || wanted->operations))
        return opt_mistake(&command, "--%s has no JSON output", first);
    for (size_t i = 0; i < command.n_options; i++) {
        bool of_plan = options[i].offset >= offsetof(struct info_options, plan) &&
                       options[i].offset < offsetof(struct info_options, schedule);
        bool of_schedule = options[i].offset >= offsetof(struct info_options, schedule);
        if (((of_plan && !wanted->plan.kind) || (of_schedule && !wanted->schedule.kind)) &&
            is_given(&options[i], wanted))
            return opt_mistake(&command, "--%s needs --%s", options[i].name, of_plan ? "plan" : "schedule");
    }
    return OPT_PROCEED;
}

int cmd_info(int argc, char **argv) {
    struct info_options wanted = defaults;
    struct msi_settings settings;
    char **operands;
    int n;
    int exit_status = opt_parse(&command, argc, argv, &wanted, &operands, &n);
    if (exit_status != OPT_PROCEED) return exit_status;
    if (n) return opt_mistake(&command, "unexpected argument '%s'", operands[0]);
    exit_status = check_options(&wanted);
    if (exit_status != OPT_PROCEED) return exit_status;
    if (wanted.plan.kind) return info_plan(&command, &wanted.plan);
    if (wanted.mesh) return info_mesh(&command, wanted.mesh, wanted.json);
    wanted.schedule.json = wanted.json;
    if (wanted.schedule.kind) return info_schedule(&command, &wanted.schedule);
    if (wanted.operations) return info_operations();
    if (wanted.man_table && wanted.env) {
        print_man_table();
        return EXIT_DONE;
    }
    msi_call_begin("muster info", NULL, -1);
    if (msi_settings_load(&settings, NULL) != MST_OK) {
        fprintf(stderr, "%s\n", mst_error());
        return EXIT_USAGE;
    }
    return print_report(&wanted, &settings);
}
