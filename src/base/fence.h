/* fence.h - fences for a reader that checks a flag after plain reads, and for the writer of that flag. */
#ifndef MSI_BASE_FENCE_H
#define MSI_BASE_FENCE_H

#include <stdatomic.h>

#if defined(__SANITIZE_THREAD__) /* gcc */
#define MSI_WITH_TSAN
#elif defined(__has_feature) /* clang */
#if __has_feature(thread_sanitizer)
#define MSI_WITH_TSAN
#endif
#endif

/* Reads before the fence happen before reads after it. */
static inline void msi_fence_reads(void) {
#ifndef MSI_WITH_TSAN /* ThreadSanitizer does not support fences */
    atomic_thread_fence(memory_order_acquire);
#endif
}

/* Writes before the fence are visible before writes after it. */
static inline void msi_fence_writes(void) {
#if defined(__aarch64__) && !defined(MSI_WITH_TSAN)
    __asm__("dmb ishst" ::: "memory"); /* a release fence also orders reads and is slower */
#elif !defined(MSI_WITH_TSAN)
    atomic_thread_fence(memory_order_release);
#endif
}

#endif
