/* fence.h - plain reads, then a look at a flag that says whether they were worth anything. */
#ifndef MSI_BASE_FENCE_H
#define MSI_BASE_FENCE_H

#include <stdatomic.h>

/* What was read before this was read before what is read behind it. */
static inline void msi_fence_reads(void) {
#ifndef __SANITIZE_THREAD__ /* ThreadSanitizer knows no fences */
    atomic_thread_fence(memory_order_acquire);
#endif
}

#endif
