/*
 * info.h - the parts of "muster info". Each prints what was asked for and returns the exit status.
 *
 *   info.c      the command line; the settings
 *   found.c     the build, the machine, the launcher and the network
 *   backends.c  the backends and their operations
 *   mesh.c      --mesh: the coordinates of the ranks of a mesh, and its groups
 *   plan.c      --plan: the algorithm of a collective, why it is chosen, and the steps of a rank
 *   schedule/   --schedule: what the stages of a pipeline do at what time
 */
#ifndef MUSTER_TOOL_INFO_INFO_H
#define MUSTER_TOOL_INFO_INFO_H

#include "base/json.h"
#include "cli/options.h"

struct plan_options {
    const char *kind; /* NULL: --plan was not given */
    const char *bytes, *dtype;
    const char *algo, *model; /* NULL: from the environment */
    long ranks, hosts, rank, root;
    bool deterministic;
};

int info_plan(const struct opt_command *command, const struct plan_options *wanted);
int info_mesh(const struct opt_command *command, const char *text, bool json);
/* --operations: a Markdown table of what each backend supports. */
int info_operations(void);

/* Without a request: all that was found, as members of a JSON object or as text. */
struct msi_settings;
void info_add_found(struct msi_json_out *out, const struct msi_settings *settings);
void info_print_found(const struct msi_settings *settings);
/* The backends, whether each is usable here, and why: the member "backends", or a section of text. */
void info_add_backends(struct msi_json_out *out);
void info_print_backends(void);

/* Prints words from a column on and a newline; lines that would be too long continue at the indent. */
void info_print_wrapped(int indent, int column, const char *text);

/* Prints a JSON text and frees it. */
int info_print_json(struct msi_buf *json);

#endif
