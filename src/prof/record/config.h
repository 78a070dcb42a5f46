/*
 * config.h - what shall be recorded, in the words of DeepSpeed's configuration:
 *
 *     {"comms_logger": {"enabled": true, "verbose": false, "prof_all": false, "debug": false,
 *                       "prof_ops": ["all_reduce", "my_name"]}}
 *
 * What else the file has beside comms_logger is DeepSpeed's and is passed over.
 */
#ifndef MSI_PROF_RECORD_CONFIG_H
#define MSI_PROF_RECORD_CONFIG_H

#include <muster/status.h>
#include <stdbool.h>
#include <stddef.h>

enum { MSI_PROF_OPS_MOST = 64, MSI_PROF_NAME_MAX = 64, MSI_PROF_CONFIG_MOST = 1 << 20 };

struct msi_prof_config {
    bool enabled;  /* anything is recorded at all */
    bool verbose;  /* each operation is told on a line of its own */
    bool prof_all; /* operations need not be named or ask for it */
    bool debug;    /* names say which function called */
    int n_ops;
    char ops[MSI_PROF_OPS_MOST][MSI_PROF_NAME_MAX]; /* prof_ops */
};

/* As DeepSpeed's: not enabled; once it is, all are recorded. A text that has prof_ops and no word on prof_all means these alone. */
extern const struct msi_prof_config msi_prof_config_default;

/*
 * Reads a configuration: text if its first character that is not blank is {, else the path of a file. Without
 * comms_logger it is the default. Whatever is wrong is MST_ERR_CONFIG, said with its place; config is then
 * left alone.
 */
mst_status msi_prof_config_read(const char *text_or_path, struct msi_prof_config *config);
/* The same of a text that came from somewhere, which messages shall name. */
mst_status msi_prof_config_parse(const char *text, size_t n, const char *from,
                                 struct msi_prof_config *config);

#endif
