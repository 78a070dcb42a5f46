/* types.h - the opaque handles, and byte strings. */
#ifndef MUSTER_TYPES_H
#define MUSTER_TYPES_H

#include <muster/options.h>
#include <muster/status.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mst_group mst_group;   /* a world or a subset of its ranks; NULL is the default world */
typedef struct mst_store mst_store;   /* a key-value store shared by several processes */
typedef struct mst_cancel mst_cancel; /* a cancellation token */

enum {
    /* .timeout_ms of waits for works and reducers, and of a store's calls: do not wait. What is not done, or
     * not there yet, is MST_ERR_TIMEOUT. */
    MST_NOW = -2147483647
};

/* A byte string owned by the caller. A NUL follows the last byte of data. */
typedef struct mst_bytes {
    char *data;
    size_t len;
} mst_bytes;

/* Frees the data that a call returned in *bytes and sets it to empty. Accepts an empty *bytes. */
void mst_bytes_free(mst_bytes *bytes);

/*
 * A cancellation token. After mst_cancel_fire, present and later calls with this token as .cancel return
 * MST_ERR_CANCELLED instead of waiting; a call that need not wait may still succeed. Any thread and signal
 * handlers may fire it. Free it after the last call with it has returned.
 */
mst_status mst_cancel_new(mst_cancel **cancel);
void mst_cancel_fire(mst_cancel *cancel);
void mst_cancel_free(mst_cancel *cancel);

#ifdef __cplusplus
}
#endif
#endif
