/*
 * types.h - the opaque handles and the macros behind keyword-style calls.
 *
 * A call such as mst_store_set(store, "k", "v", 1, .timeout_ms = 500) is a macro over the plain function
 * mst_store_set_with(store, key, value, len, options). The options are a struct whose every field has a
 * default that zero stands for; the macro fills in its size and the caller's file, line and function.
 * FFI callers and bindings use the _with functions and may pass NULL for the options. C++20 programs get
 * inline overloads under the macros' names: mst_store_set(store, "k", "v", 1, {.timeout_ms = 500}).
 */
#ifndef MUSTER_TYPES_H
#define MUSTER_TYPES_H

#include <muster/status.h>
#include <stdbool.h>
#include <stddef.h>

/* A field of an options struct that zero is the default of, also where C++ leaves it out of a list. */
#ifdef __cplusplus
#define MST_OPTION(field) field = {}
extern "C" {
#else
#define MST_OPTION(field) field
#endif

typedef struct mst_group mst_group;   /* the world, or some of its ranks; NULL is the default world */
typedef struct mst_store mst_store;   /* a key/value store that several processes share */
typedef struct mst_cancel mst_cancel; /* ends waits early, from any thread */

/* A byte string owned by the caller; data has a NUL after its last byte. */
typedef struct mst_bytes {
    char *data;
    size_t len;
} mst_bytes;

/* Frees what a call put into *bytes and empties it; an empty one is fine. */
void mst_bytes_free(mst_bytes *bytes);

/*
 * A cancellation token. Calls that were given it as .cancel and would wait return MST_ERR_CANCELLED once it was
 * fired, now and later; one that need not wait may still succeed. Firing is safe from any thread and from a signal handler. Free it after the last call
 * that was given it has returned.
 */
mst_status mst_cancel_new(mst_cancel **cancel);
void mst_cancel_fire(mst_cancel *cancel);
void mst_cancel_free(mst_cancel *cancel);

#ifdef __cplusplus
}
#define MST_SITE_PARAMETERS                                                                                  \
    const char *file = __builtin_FILE(), const char *function = __builtin_FUNCTION(),                        \
               int line = __builtin_LINE()
/* Completes options in a C++ overload that has MST_SITE_PARAMETERS. */
#define MST_FILL_OPTIONS(options)                                                                            \
    ((options).size = sizeof(options), (options).site = mst_site{file, function, line}, &(options))
#else
#define MST_HERE                     ((mst_site){__FILE__, __func__, __LINE__})
#define MST_FIRST(first, ...)        first
#define MST_REST(first, ...)         __VA_ARGS__
#define MST_OPTIONS(type, ...)       (&(type){.size = sizeof(type), .site = MST_HERE, __VA_ARGS__})
/* The options in an argument list whose first entry is the last positional argument. */
#define MST_OPTIONS_AFTER(type, ...) MST_OPTIONS(type, MST_REST(__VA_ARGS__, ))
#define MST_LAST_POSITIONAL(...)     MST_FIRST(__VA_ARGS__, )
#endif

#endif
