/*
 * pmi_table.h - the key-value space of a PMI job, one copy per rank. A rank's puts become visible to all
 * ranks at the next fence. A get never waits: a key that is missing after the fence does not exist.
 */
#ifndef MSM_PMI_TABLE_H
#define MSM_PMI_TABLE_H

#include <muster/backend.h>

enum { MSM_PMI_LINE_MAX = 2048 };

/* Clears the table, before a job begins. */
void msm_pmi_reset(void);
/* One thread at a time. Returns false without memory. */
bool msm_pmi_put(const char *key, const char *value);
/* Returns NULL if the key does not exist. The value is valid until the next put or fence. */
const char *msm_pmi_get(const char *key);
/* Collective over the ranks of the group. */
mst_status msm_pmi_fence(const mst_backend_host *host);

#endif
