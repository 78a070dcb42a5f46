/*
 * info.c - "muster info": shows the build, the machine, the launcher, the network and the backends. It writes
 * one JSON object, which it prints as it is or as text. It starts nothing and connects to nothing.
 */
#include "info/info.h"
#include "base/error.h"
#include "base/settings.h"
#include "base/table.h"
#include "bootstrap/discover.h"
#include "commands.h"
#include "info/schedule/schedule.h"
#include "os/host.h"

#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

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
    {"schedule", 0, OPT_STRING, "stream|forward|gpipe|1f1b|interleaved",
     "draw a pipeline schedule", SCHED(kind), 0, 0},
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
    .summary = "Shows how muster was built and what it finds on this machine.",
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

static void add_build(struct msi_json_out *out) {
    msi_json_member_object(out, "build");
    msi_json_member_string(out, "version", mst_version());
#if defined(__clang__)
    msi_json_member_string(out, "compiler", "clang " __clang_version__);
#else
    msi_json_member_string(out, "compiler", "gcc " __VERSION__);
#endif
#ifdef NDEBUG
    msi_json_member_string(out, "kind", "release");
#else
    msi_json_member_string(out, "kind", "debug");
#endif
    msi_json_put_object_end(out);
}

static void add_machine(struct msi_json_out *out) {
    char text[256];
    struct utsname system;
    msi_json_member_object(out, "machine");
    msi_json_member_string(out, "host", msi_host_name(text));
    if (uname(&system) == 0) {
        snprintf(text, sizeof text, "%.60s %.100s", system.sysname, system.release);
        msi_json_member_string(out, "system", text);
        msi_json_member_string(out, "architecture", system.machine);
    }
    msi_json_member_string(out, "cpu", msi_cpu_name(text, sizeof text));
    msi_json_member_int(out, "cores", sysconf(_SC_NPROCESSORS_ONLN));
    msi_json_member_string(out, "vector", msi_cpu_features(text, sizeof text));
    msi_json_put_object_end(out);
}

/* Writes a variable that is set; launchers share some, which are written once. */
static void add_variable(struct msi_json_out *out, struct msi_table *written, const char *name) {
    uint32_t before = written->n;
    if (name && msi_variable(name) && msi_table_add(written, name, strlen(name)) == before)
        msi_json_member_string(out, name, msi_variable(name));
}

/* Writes every variable of a launcher that is set. */
static void add_variables(struct msi_json_out *out) {
    static const char *const others[] = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE"};
    struct msi_table written = {0};
    msi_json_member_object(out, "variables");
    for (size_t i = 0; i < msi_launcher_count; i++) {
        const struct msi_launcher *row = &msi_launchers[i];
        const struct msi_number_rule *const rules[] = {row->rank, row->size, row->local_rank,
                                                       row->local_size};
        for (int k = 0; k < 4; k++) add_variable(out, &written, row->needs[k]);
        for (int k = 0; k < 4 * MSI_RULES; k++)
            add_variable(out, &written, rules[k / MSI_RULES][k % MSI_RULES].name);
        for (int k = 0; k < MSI_RULES; k++) add_variable(out, &written, row->host[k].name);
        for (int k = 0; k < 2; k++) add_variable(out, &written, row->job[k]);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) add_variable(out, &written, others[i]);
    msi_json_put_object_end(out);
    msi_table_free(&written);
}

static void add_found(struct msi_json_out *out, const mst_discovery *found) {
    const struct {
        const char *name;
        int value;
        const char *from;
    } numbers[] = {{"rank", found->rank, found->rank_from},
                   {"world_size", found->world_size, found->world_size_from},
                   {"local_rank", found->local_rank, found->local_rank_from},
                   {"local_size", found->local_size, found->local_size_from}};
    msi_json_member_string(out, "launcher", found->launcher);
    msi_json_member_string(out, "title", found->title);
    for (int i = 0; i < 4; i++)
        if (numbers[i].value >= 0) msi_json_member_int(out, numbers[i].name, numbers[i].value);
    if (found->master_addr[0]) msi_json_member_string(out, "master_addr", found->master_addr);
    if (found->master_port) msi_json_member_int(out, "master_port", found->master_port);
    msi_json_member_object(out, "from");
    for (int i = 0; i < 4; i++) msi_json_member_string(out, numbers[i].name, numbers[i].from);
    msi_json_member_string(out, "master_addr", found->master_addr_from);
    msi_json_member_string(out, "master_port", found->master_port_from);
    msi_json_put_object_end(out);
}

/* Writes what discovery finds, or why it fails. True if the address of the master is known. */
static bool add_discovery(struct msi_json_out *out, struct msi_address *master) {
    mst_discovery found = {.rank = -1};
    msi_json_member_object(out, "discovery");
    if (mst_discover(&found) != MST_OK) {
        msi_json_member_string(out, "error", mst_last_error()->message);
        msi_json_member_string(out, "remedy", mst_last_error()->remedy);
    } else {
        add_found(out, &found);
    }
    add_variables(out);
    msi_json_put_object_end(out);
    master->port = found.master_port;
    strcpy(master->host, found.master_addr);
    return found.master_addr[0] && found.master_port;
}

static void add_network(struct msi_json_out *out, const struct msi_settings *settings,
                        const struct msi_address *master) {
    struct msi_netif list[64];
    char chosen[64];
    const char *why;
    int n = msi_netif_list(list, 64);
    msi_json_member_object(out, "network");
    msi_json_member_array(out, "interfaces");
    for (int i = 0; i < n; i++) {
        msi_json_put_object(out);
        msi_json_member_string(out, "name", list[i].name);
        msi_json_member_string(out, "address", list[i].address);
        msi_json_member_bool(out, "up", list[i].up);
        msi_json_put_object_end(out);
    }
    msi_json_put_array_end(out);
    bool found =
        msi_netif_choose(settings->advertise_addr, settings->socket_ifname, master, chosen, &why) == MST_OK;
    msi_json_member_string(out, "address", found ? chosen : "none");
    msi_json_member_string(out, "because", found ? why : mst_last_error()->message);
    msi_json_put_object_end(out);
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

static void print_settings(const struct msi_settings *settings) {
    for (size_t i = 0; i < msi_setting_count; i++) {
        const struct msi_setting_row *row = &msi_setting_rows[i];
        char number[24];
        printf("%s = %s%s\n    %s Default: '%s'.\n", row->name, setting_text(settings, row, number),
               getenv(row->name) ? "  (set)" : "", row->help, row->preset);
    }
}

static void print_man_table(void) {
    for (size_t i = 0; i < msi_setting_count; i++) {
        const struct msi_setting_row *row = &msi_setting_rows[i];
        printf(".It Ev %s\n%s\n", row->name, row->help);
        if (*row->preset) printf("Default:\n.Ql %s .\n", row->preset);
    }
}

static void print_value(struct msi_json *in) {
    enum msi_json_kind kind = msi_json_peek(in);
    struct msi_json_text text;
    struct msi_str raw;
    struct msi_buf value = {0};
    bool on;
    if (kind == MSI_JSON_STRING && msi_json_string(in, &text))
        msi_json_add(text, &value);
    else if (kind == MSI_JSON_BOOL && msi_json_bool(in, &on))
        msi_buf_add_text(&value, on ? "yes" : "no");
    else if (msi_json_raw(in, &raw))
        msi_buf_add(&value, raw.p, raw.n);
    printf("%s", msi_buf_text(&value));
    msi_buf_free(&value);
}

/* Prints the members of an object on one line. */
static void print_members(struct msi_json *in) {
    struct msi_json_text key;
    msi_json_object(in);
    while (msi_json_key(in, &key)) {
        printf("%.*s=", (int)key.n, key.p);
        print_value(in);
        printf("  ");
    }
}

/* Prints a section as indented lines; each object in an array has its own line. */
static void print_section(struct msi_json *in) {
    struct msi_json_text key;
    struct msi_str raw;
    msi_json_object(in);
    while (msi_json_key(in, &key) && msi_json_raw(in, &raw)) {
        struct msi_json value = msi_json_of(raw.p, raw.n);
        enum msi_json_kind kind = msi_json_peek(&value);
        if ((kind == MSI_JSON_OBJECT || kind == MSI_JSON_ARRAY) && raw.n == 2) continue; /* it is empty */
        printf("  %-12.*s ", (int)key.n, key.p);
        if (kind == MSI_JSON_ARRAY) {
            msi_json_array(&value);
            for (bool first = true; msi_json_item(&value); first = false) {
                if (!first) printf("\n  %-12s ", "");
                print_members(&value);
            }
        } else if (kind == MSI_JSON_OBJECT) {
            print_members(&value);
        } else {
            print_value(&value);
        }
        printf("\n");
    }
    printf("\n");
}

/* Prints the whole report, or with --env the settings. */
static int print_report(const struct info_options *wanted, const struct msi_settings *settings) {
    struct msi_buf text = {0};
    struct msi_json_out out = msi_json_to(&text);
    struct msi_address master;
    struct msi_json_text key;
    msi_json_put_object(&out);
    if (!wanted->env) {
        add_build(&out);
        add_machine(&out);
        bool has_master = add_discovery(&out, &master);
        add_network(&out, settings, has_master ? &master : NULL);
        info_add_backends(&out);
    }
    if (wanted->json) add_settings(&out, settings);
    msi_json_put_object_end(&out);
    if (wanted->json || text.failed) return info_print_json(&text);
    if (wanted->env) print_settings(settings);
    struct msi_json in = msi_json_of((const char *)text.data, text.len);
    msi_json_object(&in);
    while (msi_json_key(&in, &key)) {
        printf("%.*s\n", (int)key.n, key.p);
        print_section(&in);
    }
    msi_buf_free(&text);
    return EXIT_DONE;
}

static const struct info_options defaults = {.plan = {.bytes = "1M", .dtype = "f32", .ranks = 4, .hosts = 1},
                                             .schedule = {.stage = -1, .backward = 1}};

static bool is_given(const struct opt *option, const struct info_options *wanted) {
    const char *value = (const char *)wanted + option->offset,
               *preset = (const char *)&defaults + option->offset;
    _Static_assert(sizeof(long) == sizeof(const char *), "numbers and strings are compared alike");
    return memcmp(value, preset, option->kind == OPT_FLAG ? sizeof(bool) : sizeof(long)) != 0;
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
