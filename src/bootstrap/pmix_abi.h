/*
 * pmix_abi.h - as much of the interface of libpmix.so.2 as pmix.c needs, so that building takes no header of
 * PMIx's. The values are those of the PMIx standard; tests/unit/test_pmix_abi.c compares them with the
 * system's header.
 */
#ifndef MSI_BOOTSTRAP_PMIX_ABI_H
#define MSI_BOOTSTRAP_PMIX_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MSI_PMIX_SUCCESS = 0, MSI_PMIX_ERR_NOT_FOUND = -46 };
enum { MSI_PMIX_BOOL = 1, MSI_PMIX_STRING = 3, MSI_PMIX_UINT32 = 14 }; /* types of values */
enum { MSI_PMIX_GLOBAL = 3 };                                          /* scope: all ranks, on all hosts */
#define MSI_PMIX_RANK_WILDCARD (UINT32_MAX - 1)
#define MSI_PMIX_COLLECT_DATA  "pmix.collect"
#define MSI_PMIX_JOB_SIZE      "pmix.job.size"

struct msi_pmix_proc {
    char space[256];
    uint32_t rank;
};

struct msi_pmix_value {
    uint16_t type;
    union {
        bool flag;
        char *string;
        uint32_t uint32;
        void *padding[3]; /* the largest kind is two pointers and a character */
    } data;
};

struct msi_pmix_info {
    char key[512];
    uint32_t flags;
    struct msi_pmix_value value;
};

/* The library's functions, PMIx_Init and so on; all but error_string return a status. */
struct msi_pmix_calls {
    int (*init)(struct msi_pmix_proc *self, struct msi_pmix_info *info, size_t count);
    int (*finalize)(const struct msi_pmix_info *info, size_t count);
    int (*put)(uint8_t scope, const char *key, struct msi_pmix_value *value);
    int (*commit)(void);
    int (*fence)(const struct msi_pmix_proc *procs, size_t proc_count, const struct msi_pmix_info *info,
                 size_t count);
    int (*get)(const struct msi_pmix_proc *proc, const char *key, const struct msi_pmix_info *info,
               size_t count, struct msi_pmix_value **value); /* the caller frees the value and its string */
    const char *(*error_string)(int status);
};

#endif
