/*
 * info.c - "muster info": what muster is and what it finds here. Everything is gathered into one JSON object,
 * which is printed as it is or as text. Starts nothing and talks to nobody.
 */
#include "base/error.h"
#include "base/settings.h"
#include "bootstrap/discover.h"
#include "cli/options.h"
#include "commands.h"
#include "info/backends.h"
#include "info/mesh.h"
#include "info/plan.h"
#include "info/schedule/schedule.h"
#include "os/host.h"

#include <cjson/cJSON.h>
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

struct info_options {
    bool json, env, man_table, operations;
    const char *mesh; /* NULL: not asked for */
    struct plan_options plan;
    struct schedule_options schedule;
};

#define PLAN_OFFSET(field) (offsetof(struct info_options, plan) + offsetof(struct plan_options, field))
#define SCHEDULE_OFFSET(field)                                                                               \
    (offsetof(struct info_options, schedule) + offsetof(struct schedule_options, field))

static const struct opt options[] = {
    {"json", 0, OPT_FLAG, NULL, "print JSON", offsetof(struct info_options, json), 0, 0},
    {"env", 0, OPT_FLAG, NULL, "list every MUSTER_* setting, its value now, its default and what it does",
     offsetof(struct info_options, env), 0, 0},
    {"man-table", 0, OPT_FLAG, NULL, "with --env: the list as the manual has it",
     offsetof(struct info_options, man_table), 0, 0},
    {"operations", 0, OPT_FLAG, NULL, "a table of what each backend does itself, and what is composed",
     offsetof(struct info_options, operations), 0, 0},
    {"mesh", 0, OPT_STRING, "SHAPE",
     "draw which rank is where in a mesh such as dp=2,pp=2,tp=2, and\n"
     "its groups",
     offsetof(struct info_options, mesh), 0, 0},
    {"plan", 0, OPT_STRING, "COLLECTIVE",
     "show the algorithm for a collective such as all_reduce, why it\n"
     "is chosen, and one rank's steps",
     PLAN_OFFSET(kind), 0, 0},
    {"ranks", 0, OPT_NUMBER, "N", "with --plan: among N ranks (default 4)", PLAN_OFFSET(ranks), 1, 100000},
    {"hosts", 0, OPT_NUMBER, "N", "on N hosts (default 1)", PLAN_OFFSET(hosts), 1, 100000},
    {"bytes", 0, OPT_STRING, "SIZE", "of a tensor of this size, as 64K or 1M (default 1M)",
     PLAN_OFFSET(bytes), 0, 0},
    {"dtype", 0, OPT_STRING, "NAME", "whose elements are these (default f32)", PLAN_OFFSET(dtype), 0, 0},
    {"rank", 0, OPT_NUMBER, "R", "the steps of rank R (default 0)", PLAN_OFFSET(rank), 0, 99999},
    {"root", 0, OPT_NUMBER, "R", "with this root (default 0)", PLAN_OFFSET(root), 0, 99999},
    {"algo", 0, OPT_STRING, "LIST", "as if these were asked for, as all_reduce:ring,broadcast:tree",
     PLAN_OFFSET(algo), 0, 0},
    {"model", 0, OPT_STRING, "FILE", "by these prices, as `muster tune` writes them", PLAN_OFFSET(model), 0,
     0},
    {"deterministic", 0, OPT_FLAG, NULL, "only algorithms that add up in rank order",
     PLAN_OFFSET(deterministic), 0, 0},
    {"schedule", 0, OPT_STRING, "KIND",
     "draw a pipeline's schedule: stream, forward, gpipe, 1f1b or\n"
     "interleaved",
     SCHEDULE_OFFSET(kind), 0, 0},
    {"stages", 0, OPT_NUMBER, "N", "with --schedule: of N stages (default 4)", SCHEDULE_OFFSET(stages), 1,
     4096},
    {"microbatches", 0, OPT_NUMBER, "N", "of N micro-batches (default twice the stages; stream: 1 a batch)",
     SCHEDULE_OFFSET(micros), 1, 1 << 20},
    {"chunks", 0, OPT_NUMBER, "N", "interleaved: N parts of the model on each stage (default 2)",
     SCHEDULE_OFFSET(chunks), 1, 1024},
    {"backward", 0, OPT_NUMBER, "N", "a backward takes the time of N forwards (default 1)",
     SCHEDULE_OFFSET(backward), 1, 16},
    {"batches", 0, OPT_NUMBER, "N", "stream: N batches (default as many as take turns)",
     SCHEDULE_OFFSET(batches), 1, 1 << 20},
    {"tokens", 0, OPT_NUMBER, "N", "stream: N new tokens of each (default 4)", SCHEDULE_OFFSET(tokens), 1,
     1 << 20},
    {"inner", 0, OPT_NUMBER, "N", "stream: N batches take turns at each token (default: the stages)",
     SCHEDULE_OFFSET(inner), 1, 1 << 20},
    {"stage", 0, OPT_NUMBER, "S", "list all that stage S does", SCHEDULE_OFFSET(stage), 0, 4095},
    {"svg", 0, OPT_STRING, "FILE", "write the picture to a file instead; '-' is standard output",
     SCHEDULE_OFFSET(svg), 0, 0},
};

static const struct opt_command command = {
    "muster info",
    "",
    "Shows what muster is and what it finds on this machine.",
    options,
    sizeof options / sizeof *options,
    false,
};

static cJSON *add_object(cJSON *parent, const char *name) {
    return cJSON_AddObjectToObject(parent, name);
}

static void add_build(cJSON *root) {
    cJSON *build = add_object(root, "build");
    cJSON_AddStringToObject(build, "version", mst_version());
#if defined(__clang__)
    cJSON_AddStringToObject(build, "compiler", "clang " __clang_version__);
#else
    cJSON_AddStringToObject(build, "compiler", "gcc " __VERSION__);
#endif
#ifdef NDEBUG
    cJSON_AddStringToObject(build, "kind", "release");
#else
    cJSON_AddStringToObject(build, "kind", "debug");
#endif
}

static void add_machine(cJSON *root) {
    char text[256];
    struct utsname system;
    cJSON *machine = add_object(root, "machine");
    cJSON_AddStringToObject(machine, "host", msi_host_name(text));
    if (uname(&system) == 0) {
        snprintf(text, sizeof text, "%.60s %.100s", system.sysname, system.release);
        cJSON_AddStringToObject(machine, "system", text);
        cJSON_AddStringToObject(machine, "architecture", system.machine);
    }
    cJSON_AddStringToObject(machine, "cpu", msi_cpu_name(text, sizeof text));
    cJSON_AddNumberToObject(machine, "cores", (double)sysconf(_SC_NPROCESSORS_ONLN));
    cJSON_AddStringToObject(machine, "vector", msi_cpu_features(text, sizeof text));
}

/* Every variable of the table of launchers that is set. */
static void add_variable(cJSON *variables, const char *name) {
    if (name && msi_variable(name) && !cJSON_GetObjectItemCaseSensitive(variables, name))
        cJSON_AddStringToObject(variables, name, msi_variable(name));
}

static void add_rules(cJSON *variables, const struct msi_number_rule rules[MSI_RULES]) {
    for (int i = 0; i < MSI_RULES; i++) add_variable(variables, rules[i].name);
}

static void add_variables(cJSON *discovery) {
    cJSON *variables = add_object(discovery, "variables");
    for (size_t i = 0; i < msi_launcher_count; i++) {
        const struct msi_launcher *row = &msi_launchers[i];
        for (int k = 0; k < 4; k++) add_variable(variables, row->needs[k]);
        add_rules(variables, row->rank);
        add_rules(variables, row->size);
        add_rules(variables, row->local_rank);
        add_rules(variables, row->local_size);
        for (int k = 0; k < MSI_RULES; k++) add_variable(variables, row->host[k].name);
        for (int k = 0; k < 2; k++) add_variable(variables, row->job[k]);
    }
    static const char *const others[] = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) add_variable(variables, others[i]);
}

static void add_known(cJSON *discovery, const char *name, int value) {
    if (value >= 0) cJSON_AddNumberToObject(discovery, name, value);
}

static void add_found(cJSON *discovery, const mst_discovery *found) {
    cJSON_AddStringToObject(discovery, "launcher", found->launcher);
    cJSON_AddStringToObject(discovery, "title", found->title);
    add_known(discovery, "rank", found->rank);
    add_known(discovery, "world_size", found->world_size);
    add_known(discovery, "local_rank", found->local_rank);
    add_known(discovery, "local_size", found->local_size);
    if (found->master_addr[0]) cJSON_AddStringToObject(discovery, "master_addr", found->master_addr);
    if (found->master_port) cJSON_AddNumberToObject(discovery, "master_port", found->master_port);
    cJSON *from = add_object(discovery, "from");
    cJSON_AddStringToObject(from, "rank", found->rank_from);
    cJSON_AddStringToObject(from, "world_size", found->world_size_from);
    cJSON_AddStringToObject(from, "local_rank", found->local_rank_from);
    cJSON_AddStringToObject(from, "local_size", found->local_size_from);
    cJSON_AddStringToObject(from, "master_addr", found->master_addr_from);
    cJSON_AddStringToObject(from, "master_port", found->master_port_from);
}

/* The place that discovery finds, or why it finds none. Returns whether there is a master to have a route to.
 */
static bool add_discovery(cJSON *root, struct msi_address *master) {
    cJSON *discovery = add_object(root, "discovery");
    mst_discovery found = {.rank = -1};
    if (mst_discover(&found) != MST_OK) {
        cJSON_AddStringToObject(discovery, "error", mst_last_error()->message);
        cJSON_AddStringToObject(discovery, "remedy", mst_last_error()->remedy);
    } else {
        add_found(discovery, &found);
    }
    add_variables(discovery);
    master->port = found.master_port;
    strcpy(master->host, found.master_addr);
    return found.master_addr[0] && found.master_port;
}

static void add_network(cJSON *root, const struct msi_settings *settings, const struct msi_address *master) {
    struct msi_netif list[64];
    char chosen[64];
    const char *why;
    int n = msi_netif_list(list, 64);
    cJSON *network = add_object(root, "network");
    cJSON *interfaces = cJSON_AddArrayToObject(network, "interfaces");
    for (int i = 0; i < n; i++) {
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "name", list[i].name);
        cJSON_AddStringToObject(item, "address", list[i].address);
        cJSON_AddBoolToObject(item, "up", list[i].up);
        cJSON_AddItemToArray(interfaces, item);
    }
    bool found =
        msi_netif_choose(settings->advertise_addr, settings->socket_ifname, master, chosen, &why) == MST_OK;
    cJSON_AddStringToObject(network, "address", found ? chosen : "none");
    cJSON_AddStringToObject(network, "because", found ? why : mst_last_error()->message);
}

static void add_settings(cJSON *root, const struct msi_settings *settings) {
    cJSON *all = add_object(root, "settings");
    for (size_t i = 0; i < msi_setting_count; i++) {
        const struct msi_setting_row *row = &msi_setting_rows[i];
        const char *field = (const char *)settings + row->offset;
        cJSON *item = add_object(all, row->name);
        int64_t number;
        memcpy(&number, field, sizeof number);
        if (row->kind == MSI_SETTING_TEXT)
            cJSON_AddStringToObject(item, "value", field);
        else if (row->kind == MSI_SETTING_AUTO && number == 0)
            cJSON_AddStringToObject(item, "value", "auto");
        else
            cJSON_AddNumberToObject(item, "value", (double)number);
        cJSON_AddStringToObject(item, "default", row->preset);
        cJSON_AddBoolToObject(item, "set", getenv(row->name) != NULL);
        cJSON_AddStringToObject(item, "help", row->help);
    }
}

static cJSON *gather(const struct msi_settings *settings) {
    cJSON *root = cJSON_CreateObject();
    struct msi_address master;
    add_build(root);
    add_machine(root);
    bool has_master = add_discovery(root, &master);
    add_network(root, settings, has_master ? &master : NULL);
    info_add_backends(root);
    return root;
}

static void print_value(const cJSON *item) {
    if (cJSON_IsString(item))
        printf("%s", item->valuestring);
    else if (cJSON_IsBool(item))
        printf("%s", cJSON_IsTrue(item) ? "yes" : "no");
    else
        printf("%.0f", item->valuedouble);
}

/* Its fields on one line. */
static void print_fields(const cJSON *object) {
    const cJSON *field;
    cJSON_ArrayForEach(field, object) {
        printf("%s=", field->string);
        print_value(field);
        printf("  ");
    }
}

/* A section of the object as indented lines; what is nested in it goes on lines of its own. */
static void print_section(const cJSON *section) {
    const cJSON *item, *part;
    printf("%s\n", section->string);
    cJSON_ArrayForEach(item, section) {
        bool nested = cJSON_IsObject(item) || cJSON_IsArray(item);
        if (nested && !item->child) continue;
        printf("  %-12s ", item->string);
        if (cJSON_IsArray(item)) {
            cJSON_ArrayForEach(part, item) {
                if (part != item->child) printf("\n  %-12s ", "");
                print_fields(part);
            }
        } else if (nested) {
            print_fields(item);
        } else {
            print_value(item);
        }
        printf("\n");
    }
    printf("\n");
}

static void print_settings(const cJSON *settings) {
    const cJSON *item;
    cJSON_ArrayForEach(item, settings) {
        printf("%s = ", item->string);
        print_value(cJSON_GetObjectItem(item, "value"));
        printf("%s\n    %s Default: '%s'.\n", cJSON_IsTrue(cJSON_GetObjectItem(item, "set")) ? "  (set)" : "",
               cJSON_GetObjectItem(item, "help")->valuestring,
               cJSON_GetObjectItem(item, "default")->valuestring);
    }
}

static void print_man_table(void) {
    for (size_t i = 0; i < msi_setting_count; i++) {
        const struct msi_setting_row *row = &msi_setting_rows[i];
        printf(".It Ev %s\n%s\n", row->name, row->help);
        if (*row->preset) printf("Default:\n.Ql %s .\n", row->preset);
    }
}

static int print_all(const struct info_options *wanted, cJSON *root) {
    const cJSON *section;
    if (wanted->json) {
        char *text = cJSON_Print(root);
        puts(text ? text : "{}");
        free(text);
        return EXIT_DONE;
    }
    if (wanted->env)
        print_settings(cJSON_GetObjectItem(root, "settings"));
    else
        cJSON_ArrayForEach(section, root) print_section(section);
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

/* Options that belong to none of what is asked for, and more than one thing that is, would be passed over in silence. */
static int check_options(const struct info_options *wanted) {
    const char *const things[] = {wanted->plan.kind ? "plan" : NULL, wanted->mesh ? "mesh" : NULL,
                                  wanted->schedule.kind ? "schedule" : NULL,
                                  wanted->operations ? "operations" : NULL, wanted->env ? "env" : NULL};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof things / sizeof *things; i++) {
        if (first && things[i])
            return opt_mistake(&command, "--%s and --%s: ask for one at a time", first, things[i]);
        if (things[i]) first = things[i];
    }
    if (wanted->man_table && !wanted->env)
        return opt_mistake(&command, "--man-table is for --env, which is not asked for");
    if (wanted->json && (wanted->plan.kind || wanted->operations))
        return opt_mistake(&command, "--%s is not printed as JSON", first);
    for (size_t i = 0; i < command.n_options; i++) {
        bool of_plan = options[i].offset >= offsetof(struct info_options, plan) &&
                       options[i].offset < offsetof(struct info_options, schedule);
        bool of_schedule = options[i].offset >= offsetof(struct info_options, schedule);
        if (((of_plan && !wanted->plan.kind) || (of_schedule && !wanted->schedule.kind)) &&
            is_given(&options[i], wanted))
            return opt_mistake(&command, "--%s is for --%s, which is not asked for", options[i].name,
                               of_plan ? "plan" : "schedule");
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
    if (n) return opt_mistake(&command, "'%s' is not expected here", operands[0]);
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
    cJSON *root = wanted.env ? cJSON_CreateObject() : gather(&settings);
    if (wanted.env || wanted.json) add_settings(root, &settings);
    exit_status = print_all(&wanted, root);
    cJSON_Delete(root);
    return exit_status;
}
