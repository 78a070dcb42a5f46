/*
 * registry.h - backends by name: native, those that the program registered, and modules, which are loaded
 * when they are first needed and never unloaded. See <muster/backend.h>.
 */
#ifndef MSI_ENGINE_MODULE_REGISTRY_H
#define MSI_ENGINE_MODULE_REGISTRY_H

#include "comm/op.h"

#include <muster/backend.h>

/* Represents the native engines; has only a name, a title and rows. */
extern const mst_backend msi_native_backend;

/* The backend of that name, which can be used here; path is MUSTER_BACKEND_PATH. */
mst_status msi_backend_find(const char *name, const char *path, const mst_backend **table);

enum { MSI_BACKENDS_MAX = 80 };
/* The backend for each kind of memory; NULL: none. */
struct msi_backends {
    char text[MSI_BACKENDS_MAX]; /* "native", "cpu:native,cuda:nccl" */
    const mst_backend *of[MST_MEMORY_COUNT];
};

/* Parses ".backend": one name, a name for each kind of memory, or "auto". Fails if one cannot be used
 * here. */
mst_status msi_backends_parse(const char *text, const char *path, struct msi_backends *backends);

/* Does one row have all bits that the operation needs? forms are MST_FORM_ bits. */
bool msi_rows_have(const mst_backend_capability *rows, mst_kind kind, mst_dtype dtype, mst_op op,
                   mst_memory memory, unsigned forms);
/* "all_reduce"; "?" for an invalid kind. */
const char *msi_kind_text(mst_kind kind);

#endif
