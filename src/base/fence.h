/* fence.h - fences for a reader that checks a flag after plain reads, and for the writer of that flag. */
#ifndef MSI_BASE_FENCE_H
#define MSI_BASE_FENCE_H

#include <stdatomic.h>

/* Reads before the fence happen before reads after it. */
static inline void msi_fence_reads(void) {
#ifndef __SANITIZE_THREAD__ /* ThreadSanitizer does not support fences */
    atomic_thread_fence(memory_order_acquire);
#endif
}

/* Writes before the fence are visible before writes after it. */
static inline void msi_fence_writes(void) {
#if defined(__aarch64__) && !defined(__SANITIZE_THREAD__)
    __asm__("dmb ishst" ::: "memory"); /* a release fence also orders reads and is slower */
#elif !defined(__SANITIZE_THREAD__)
    atomic_thread_fence(memory_order_release);
#endif
}

#endif
