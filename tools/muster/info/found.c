/*
 * found.c - what "muster info" finds: the build, the machine, the launcher, the network and the backends, as
 * JSON for programs and as text for people.
 */
#include "auth/secret.h"
#include "auth/sha256.h"
#include "auth/tls.h"
#include "base/error.h"
#include "base/settings.h"
#include "base/table.h"
#include "bootstrap/discover.h"
#include "info/info.h"
#include "os/host.h"

#include <muster/muster.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { INTERFACES_MOST = 64, LABEL_WIDTH = 12 };

#if defined(__clang__)
static const char compiler[] = "clang " __clang_version__;
#else
static const char compiler[] = "gcc " __VERSION__;
#endif
#ifdef NDEBUG
static const char build_kind[] = "release";
#else
static const char build_kind[] = "debug";
#endif

static void add_build(struct msi_json_out *out) {
    msi_json_member_object(out, "build");
    msi_json_member_string(out, "version", mst_version());
    msi_json_member_string(out, "compiler", compiler);
    msi_json_member_string(out, "kind", build_kind);
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

static void print_label(const char *label) {
    printf("  %-*s ", LABEL_WIDTH, label);
}

/* Writes a variable that is set, without out as a line; launchers share some, which are written once. */
static void add_variable(struct msi_json_out *out, struct msi_table *written, const char *name) {
    uint32_t before = written->n;
    const char *value = name ? msi_variable(name) : NULL;
    if (!value || msi_table_add(written, name, strlen(name)) != before) return;
    if (out) {
        msi_json_member_string(out, name, value);
    } else {
        print_label(before == 0 ? "variables" : "");
        printf("%s=%s\n", name, value);
    }
}

/* Writes every variable of a launcher that is set: as members, or without out as lines. */
static void add_variables(struct msi_json_out *out) {
    static const char *const others[] = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE"};
    struct msi_table written = {0};
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

/* True if the address of the master is known. */
static bool set_master(const mst_discovery *found, struct msi_address *master) {
    master->port = found->master_port;
    strcpy(master->host, found->master_addr);
    return found->master_addr[0] && found->master_port;
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
    msi_json_member_object(out, "variables");
    add_variables(out);
    msi_json_put_object_end(out);
    msi_json_put_object_end(out);
    return set_master(&found, master);
}

static void add_network(struct msi_json_out *out, const struct msi_settings *settings,
                        const struct msi_address *master) {
    struct msi_netif list[INTERFACES_MOST];
    char chosen[64];
    const char *why;
    int n = msi_netif_list(list, INTERFACES_MOST);
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

static const char *secret_source(const struct msi_secret *secret) {
    static const char *const names[] = {[MSI_SECRET_FROM_FILE] = "MUSTER_SECRET_FILE",
                                        [MSI_SECRET_FROM_LAUNCHER] = "launcher",
                                        [MSI_SECRET_FROM_USER] = "user"};
    return names[secret->source];
}

/* Where the secret is, never the secret itself. */
static void add_secret(struct msi_json_out *out, const struct msi_settings *settings) {
    struct msi_secret secret = {.where = ""};
    mst_status st = msi_secret_load(settings->secret_file, false, &secret);
    msi_json_member_object(out, "secret");
    if (secret.where[0]) msi_json_member_string(out, "source", secret_source(&secret));
    if (secret.where[0]) msi_json_member_string(out, "path", secret.where);
    msi_json_member_bool(out, "exists", secret.exists);
    if (st != MST_OK) msi_json_member_string(out, "error", mst_last_error()->message);
    msi_json_put_object_end(out);
    msi_wipe(&secret, sizeof secret);
}

static void add_tls(struct msi_json_out *out, const struct msi_settings *settings) {
    const struct msi_tls_module *module;
    msi_json_member_object(out, "tls");
    msi_json_member_bool(out, "available", msi_tls_load(settings->backend_path, &module) == MST_OK);
    msi_json_member_bool(out, "on", settings->tls);
    msi_json_member_bool(out, "certificates", settings->tls_cert[0] != 0);
    msi_json_put_object_end(out);
}

void info_add_found(struct msi_json_out *out, const struct msi_settings *settings) {
    struct msi_address master;
    add_build(out);
    add_machine(out);
    bool has_master = add_discovery(out, &master);
    add_network(out, settings, has_master ? &master : NULL);
    add_secret(out, settings);
    add_tls(out, settings);
    info_add_backends(out);
}

static void print_line(const char *label, const char *value) {
    print_label(label);
    info_print_wrapped(LABEL_WIDTH + 3, LABEL_WIDTH + 3, value);
}

static void print_machine(void) {
    char text[256];
    struct utsname system;
    printf("muster %s (%s build, %s)\n\nMachine\n", mst_version(), build_kind, compiler);
    print_line("host", msi_host_name(text));
    if (uname(&system) == 0) {
        snprintf(text, sizeof text, "%.60s %.100s, %.60s", system.sysname, system.release, system.machine);
        print_line("system", text);
    }
    print_line("processor", msi_cpu_name(text, sizeof text));
    snprintf(text, sizeof text, "%ld", sysconf(_SC_NPROCESSORS_ONLN));
    print_line("cores", text);
    print_line("instructions", msi_cpu_features(text, sizeof text));
}

/* Prints "R of N", and the variables of both numbers. */
static void print_rank(const char *label, int rank, int size, const char *rank_from, const char *size_from) {
    char text[256], numbers[2][16];
    snprintf(numbers[0], sizeof numbers[0], rank < 0 ? "?" : "%d", rank);
    snprintf(numbers[1], sizeof numbers[1], size < 1 ? "?" : "%d", size);
    bool same = strcmp(rank_from, size_from) == 0;
    snprintf(text, sizeof text, "%s of %s (%s%s%s)", numbers[0], numbers[1], rank_from, same ? "" : ", ",
             same ? "" : size_from);
    print_line(label, text);
}

static void print_master(const mst_discovery *found) {
    char text[512];
    if (!found->master_addr[0]) return;
    snprintf(text, sizeof text, found->master_port ? "%s:%d (%s, %s)" : "%s", found->master_addr,
             found->master_port, found->master_addr_from, found->master_port_from);
    print_line("rank 0 is at", text);
}

/* Prints who started this process. True if the address of the master is known. */
static bool print_launcher(struct msi_address *master) {
    mst_discovery found = {.rank = -1};
    printf("\nLauncher\n");
    if (mst_discover(&found) != MST_OK) {
        print_line("error", mst_last_error()->message);
        if (mst_last_error()->remedy[0]) print_line("remedy", mst_last_error()->remedy);
    } else if (strcmp(found.launcher, "none") == 0 && found.world_size == 1) {
        print_line("started by", "no launcher; a program would be the only rank of its world");
        print_line("for 4 ranks", "muster run -n 4 PROGRAM");
    } else {
        print_line("started by", found.title);
        print_rank("rank", found.rank, found.world_size, found.rank_from, found.world_size_from);
        print_rank("local rank", found.local_rank, found.local_size, found.local_rank_from,
                   found.local_size_from);
        print_master(&found);
    }
    add_variables(NULL);
    return set_master(&found, master);
}

/* Prints each interface once, with all of its addresses. */
static void print_network(const struct msi_settings *settings, const struct msi_address *master) {
    struct msi_netif list[INTERFACES_MOST];
    char chosen[64], text[256];
    const char *why;
    int n = msi_netif_list(list, INTERFACES_MOST);
    printf("\nNetwork\n");
    for (int i = 0; i < n; i++) {
        int first = 0;
        while (strcmp(list[first].name, list[i].name) != 0) first++;
        if (first < i) continue;
        print_label(list[i].name);
        printf("%s", list[i].up ? "" : "down: ");
        for (int k = i; k < n; k++)
            if (strcmp(list[k].name, list[i].name) == 0) printf("%s%s", k > i ? ", " : "", list[k].address);
        printf("\n");
    }
    bool found =
        msi_netif_choose(settings->advertise_addr, settings->socket_ifname, master, chosen, &why) == MST_OK;
    if (found)
        snprintf(text, sizeof text, "other hosts reach this one at %s (%s)", chosen, why);
    else
        snprintf(text, sizeof text, "none: %.200s", mst_last_error()->message);
    print_line("address", text);
}

static const char *describe_tls(const struct msi_settings *settings) {
    const struct msi_tls_module *module;
    if (msi_tls_load(settings->backend_path, &module) != MST_OK) return mst_last_error()->message;
    if (!settings->tls) return "off; MUSTER_TLS=1 turns it on";
    return settings->tls_cert[0] ? "on, with certificates" : "on, with the secret";
}

static void print_secret(const struct msi_settings *settings) {
    struct msi_secret secret = {.where = ""};
    mst_status st = msi_secret_load(settings->secret_file, false, &secret);
    printf("\nSecret\n");
    if (secret.where[0]) print_line("path", secret.where);
    if (secret.where[0]) print_line("source", secret_source(&secret));
    if (st != MST_OK) {
        print_line("error", mst_last_error()->message);
        print_line("remedy", mst_last_error()->remedy);
    } else if (!secret.exists) {
        print_line("state", "does not exist; it is made at the first use");
    }
    print_line("TLS", describe_tls(settings));
    msi_wipe(&secret, sizeof secret);
}

void info_print_found(const struct msi_settings *settings) {
    struct msi_address master;
    print_machine();
    bool has_master = print_launcher(&master);
    print_network(settings, has_master ? &master : NULL);
    print_secret(settings);
    info_print_backends();
    printf(
        "\n'muster info --env' lists the settings, 'muster info --json' prints all of this for programs.\n");
}
