/*
 * pmi_table.h - the keys of a PMI job, as each rank has them. What a rank puts is its own until the next fence, at which all ranks
 * learn of all that was put; so getting a key never waits, and one that is not there is known not to be.
 */
#ifndef MSM_PMI_TABLE_H
#define MSM_PMI_TABLE_H

#include <muster/backend.h>

enum { MSM_PMI_LINE_MAX = 2048 };

/* Forgets everything, before a job begins. */
void msm_pmi_reset(void);
/* From one thread at a time. False: out of memory. */
bool msm_pmi_put(const char *key, const char *value);
/* NULL: there is none. Lives until the next put or fence. */
const char *msm_pmi_get(const char *key);
/* With all ranks of the group, who call it equally often. */
mst_status msm_pmi_fence(const mst_backend_host *host);

#endif
