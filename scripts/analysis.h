/* analysis.h - tells the static analyzer that these functions never return MST_OK. */
#include "base/error.h"

#define msi_fail(status, ...)   ((void)msi_fail(status, __VA_ARGS__), (status))
#define msi_blame(status, rank) ((void)msi_blame(status, rank), (status))
#define msi_fail_memory()       ((void)msi_fail_memory(), MST_ERR_MEMORY)
#define msi_fail_errno(...)     ((void)msi_fail_errno(__VA_ARGS__), MST_ERR_SYSTEM)
