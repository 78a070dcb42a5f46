/* native.h - native as a table, where some of what it has shall be composed all the same (MUSTER_FORCE_FALLBACK). */
#ifndef MSI_BACKEND_NATIVE_H
#define MSI_BACKEND_NATIVE_H

#include "backend/registry.h"

extern const mst_backend msi_native_composed;

#endif
