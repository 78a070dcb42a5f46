/*
 * model.h - the cost model of communication. A formula gives amounts; the sum of amounts times costs is a
 * time.
 *
 * The costs come from a file that `muster tune` has written, or are defaults for a current server. All ranks
 * must use the same costs, so that they select the same algorithm. The library measures nothing at start-up,
 * so that the selection, and with it the rounding of float sums, is the same in every run.
 */
#ifndef MSI_COLL_COST_MODEL_H
#define MSI_COLL_COST_MODEL_H

#include <muster/status.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* X(name, text, unit, default, help). The default is in seconds each, or in bytes per second. */
#define MSI_COST_TABLE(X)                                                                                    \
    X(LOCAL_LATENCY, "local.latency", EACH, 1e-6, "latency of an empty message within a host")               \
    X(LOCAL_MESSAGE, "local.message", EACH, 5e-7, "CPU time per message within a host")                      \
    X(LOCAL_BYTE, "local.bandwidth", RATE, 12e9, "bytes that a rank sends or receives")                      \
    X(REMOTE_LATENCY, "remote.latency", EACH, 15e-6, "as local.latency, between hosts")                      \
    X(REMOTE_MESSAGE, "remote.message", EACH, 1e-6, "as local.message, between hosts")                       \
    X(REMOTE_BYTE, "remote.bandwidth", RATE, 3e9, "bytes that leave a host")                                 \
    X(COMBINE, "combine", RATE, 10e9, "bytes reduced")                                                       \
    X(COPY, "copy", RATE, 12e9, "bytes copied")

#define MSI_COST_NAME(name, text, unit, preset, help) MSI_COST_##name,
enum msi_cost_term { MSI_COST_TABLE(MSI_COST_NAME) MSI_COST_TERMS };
#undef MSI_COST_NAME

struct msi_model {
    double costs[MSI_COST_TERMS]; /* seconds each, or per byte */
    size_t chunk;                 /* bytes of a piece; 0: do not cut */
};

extern const struct msi_model msi_model_default;

/*
 * Reads lines such as "remote.latency 12.5 us", "remote.bandwidth 2.9 GB/s", "chunk 128K". # begins a
 * comment. Values that the text omits keep their default. name is the file name for error messages.
 * MST_ERR_CONFIG names the line.
 */
mst_status msi_model_parse(const char *text, size_t len, const char *name, struct msi_model *model);
/* The same from a file. */
mst_status msi_model_read(const char *path, struct msi_model *model);
/* Writes the format that msi_model_parse reads. */
void msi_model_write(FILE *to, const struct msi_model *model);

/* The name of a cost in the file. */
const char *msi_model_name(int term);

/* Differs between models that may select different algorithms. */
uint64_t msi_model_hash(const struct msi_model *model);

#endif
