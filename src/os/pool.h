/* pool.h - threads for functions that may wait: each gets a thread at once, an idle one or a new one. If no
 * further thread can be started, it waits for one. */
#ifndef MSI_OS_POOL_H
#define MSI_OS_POOL_H

#include <stdbool.h>

struct msi_pool;

/* The memory of a job is the caller's until run is called. */
struct msi_job {
    void (*run)(struct msi_job *job);
    struct msi_job *next;
};

/* NULL without memory or a first thread, with errno. */
struct msi_pool *msi_pool_new(void);
/* Jobs begin in the order of these calls. */
void msi_pool_run(struct msi_pool *pool, struct msi_job *job);
/* Waits until all jobs have returned; false: there were none. Accepts NULL. Not for jobs of the pool. */
bool msi_pool_drain(struct msi_pool *pool);
/* The same; then ends the threads. */
void msi_pool_free(struct msi_pool *pool);

#endif
