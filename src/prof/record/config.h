/*
 * config.h - what is recorded, in the format of DeepSpeed's configuration:
 *
 *     {"comms_logger": {"enabled": true, "verbose": false, "prof_all": false, "debug": false,
 *                       "prof_ops": ["all_reduce", "my_name"]}}
 *
 * Other keys of the file belong to DeepSpeed and are skipped.
 */
#ifndef MSI_PROF_RECORD_CONFIG_H
#define MSI_PROF_RECORD_CONFIG_H

#include <muster/status.h>
#include <stdbool.h>
#include <stddef.h>

enum { MSI_PROF_OPS_MOST = 64, MSI_PROF_NAME_MAX = 64, MSI_PROF_CONFIG_MOST = 1 << 20 };

struct msi_prof_config {
    bool enabled;  /* record anything at all */
    bool verbose;  /* print a line for each operation */
    bool prof_all; /* record all operations, not only named ones and those with .prof */
    bool debug;    /* tell calling functions apart */
    int n_ops;
    char ops[MSI_PROF_OPS_MOST][MSI_PROF_NAME_MAX]; /* prof_ops */
};

/*
 * As DeepSpeed's: not enabled; if enabled, prof_all. A text with prof_ops and without prof_all means these
 * only.
 */
extern const struct msi_prof_config msi_prof_config_default;

/*
 * Reads a configuration: a text if its first non-blank character is {, else the path of a file. Without
 * comms_logger it is the default. Errors are MST_ERR_CONFIG with line and column; config is then unchanged.
 */
mst_status msi_prof_config_read(const char *text_or_path, struct msi_prof_config *config);
/* Reads a text; messages name from as its origin. */
mst_status msi_prof_config_parse(const char *text, size_t n, const char *from,
                                 struct msi_prof_config *config);

#endif
