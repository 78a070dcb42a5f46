/*
 * types.h - the opaque handles and the macros for calls with named options.
 *
 * A call such as mst_store_set(store, "k", "v", 1, .timeout_ms = 500) is a macro over the function
 * mst_store_set_with(store, key, value, len, options). The options are a struct in which zero stands for the
 * default of each field. The macro sets its size and the caller's file, line and function. Bindings for other
 * languages use the _with functions and may pass NULL for the options. In C++20 the macro names are inline
 * functions: mst_store_set(store, "k", "v", 1, {.timeout_ms = 500}).
 */
#ifndef MUSTER_TYPES_H
#define MUSTER_TYPES_H

#include <muster/status.h>
#include <stdbool.h>
#include <stddef.h>

/* A field of an options struct with the default zero, also for C++ initializers that omit it. */
#ifdef __cplusplus
#define MST_OPTION(field) field = {}
extern "C" {
#else
#define MST_OPTION(field) field
#endif

typedef struct mst_group mst_group;   /* a world or a subset of its ranks; NULL is the default world */
typedef struct mst_store mst_store;   /* a key-value store shared by several processes */
typedef struct mst_cancel mst_cancel; /* a cancellation token */

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
#define MST_SITE_PARAMETERS                                                                                  \
    const char *file = __builtin_FILE(), const char *function = __builtin_FUNCTION(),                        \
               int line = __builtin_LINE()
/* Defines the C++ function of a _with function: parameters in parentheses, then their names. */
#define MST_CPP_WRAP(type, name, parameters, ...)                                                            \
    inline mst_status name(MST_UNPACK parameters, type options = {}, MST_SITE_PARAMETERS) {                  \
        return name##_with(__VA_ARGS__, MST_FILL_OPTIONS(options));                                          \
    }
#define MST_UNPACK(...) __VA_ARGS__
/* Completes options in a C++ function that has MST_SITE_PARAMETERS. */
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
