/*
 * fence.h - plain reads, then a look at a flag that says whether they were worth anything; and its other side, a flag that says no, and
 * then the writes.
 */
#ifndef MSI_BASE_FENCE_H
#define MSI_BASE_FENCE_H

#include <stdatomic.h>

/* What was read before this was read before what is read behind it. */
static inline void msi_fence_reads(void) {
#ifndef __SANITIZE_THREAD__ /* ThreadSanitizer knows no fences */
    atomic_thread_fence(memory_order_acquire);
#endif
}

/* What was written before this is seen before what is written behind it. */
static inline void msi_fence_writes(void) {
#if defined(__aarch64__) && !defined(__SANITIZE_THREAD__)
    __asm__("dmb ishst" ::: "memory"); /* a release fence minds reads, too, and takes longer */
#elif !defined(__SANITIZE_THREAD__)
    atomic_thread_fence(memory_order_release);
#endif
}

#endif
