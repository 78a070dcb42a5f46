/* native.h - native as a table, where some of what it has shall be composed all the same (MUSTER_FORCE_FALLBACK). */
#ifndef MSI_ENGINE_MODULE_NATIVE_H
#define MSI_ENGINE_MODULE_NATIVE_H

#include "engine/module/registry.h"

extern const mst_backend msi_native_composed;

#endif
