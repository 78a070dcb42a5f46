/*
 * model.h - what communication costs, as prices: a plan's formula tells amounts, and amounts times prices are seconds.
 *
 * The prices come from a file that `muster tune` has measured, or are those of a present-day server. All ranks must have the
 * same, so that they choose alike; and the same from run to run, or sums of floats would not be: nothing is measured when a
 * program starts.
 */
#ifndef MSI_COLL_COST_MODEL_H
#define MSI_COLL_COST_MODEL_H

#include <muster/status.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* X(name, text, unit, default, help): seconds each, or bytes a second. */
#define MSI_PRICE_TABLE(X)                                                                                   \
    X(LOCAL_LATENCY, "local.latency", EACH, 1e-6, "from posting to arrival of an empty message on a host")   \
    X(LOCAL_MESSAGE, "local.message", EACH, 5e-7, "work for a message on a host")                            \
    X(LOCAL_BYTE, "local.bandwidth", RATE, 12e9, "bytes that a rank moves")                                  \
    X(REMOTE_LATENCY, "remote.latency", EACH, 15e-6, "as local.latency, between hosts")                      \
    X(REMOTE_MESSAGE, "remote.message", EACH, 1e-6, "as local.message, between hosts")                       \
    X(REMOTE_BYTE, "remote.bandwidth", RATE, 3e9, "bytes that leave a host")                                 \
    X(COMBINE, "combine", RATE, 10e9, "bytes combined with others")                                          \
    X(COPY, "copy", RATE, 12e9, "bytes copied")

#define MSI_PRICE_NAME(name, text, unit, preset, help) MSI_PRICE_##name,
enum msi_price { MSI_PRICE_TABLE(MSI_PRICE_NAME) MSI_PRICES };
#undef MSI_PRICE_NAME

struct msi_model {
    double prices[MSI_PRICES]; /* seconds: of one, or of a byte */
    size_t chunk;              /* bytes of a piece; 0: nothing is cut */
};

extern const struct msi_model msi_model_default;

/*
 * Reads lines such as "remote.latency 12.5 us", "remote.bandwidth 2.9 GB/s", "chunk 128K"; # begins a remark, and what is not
 * there keeps its default. name is the file's, for messages. MST_ERR_CONFIG names the line.
 */
mst_status msi_model_parse(const char *text, size_t len, const char *name, struct msi_model *model);
/* The same from a file. */
mst_status msi_model_read(const char *path, struct msi_model *model);
/* Writes what msi_model_parse reads. */
void msi_model_write(FILE *to, const struct msi_model *model);

/* Different where ranks with these would choose differently. */
uint64_t msi_model_hash(const struct msi_model *model);

#endif
