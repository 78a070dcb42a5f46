/* tick.c - see tick.h. */
#include "os/tick.h"

#include <pthread.h>

#if defined(__x86_64__)
#include "os/file.h"

#include <cpuid.h>

bool msi_tick_raw;

/* Has the kernel chosen another clock because the processors' counters disagree? */
static bool is_distrusted(void) {
    char name[32];
    msi_file_line("/sys/devices/system/clocksource/clocksource0/current_clocksource", name, sizeof name);
    return !strcmp(name, "hpet") || !strcmp(name, "acpi_pm") || !strcmp(name, "jiffies");
}

/* Does the counter run at a constant rate (invariant TSC)? */
static void find_out(void) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    msi_tick_raw = __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8) && !is_distrusted();
}
#else
static void find_out(void) {}
#endif

void msi_tick_begin(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_out);
}

/* Takes several samples and keeps the fastest one, which was not interrupted. */
struct msi_tick_look msi_tick_look(void) {
    struct msi_tick_look best = {0, 0};
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        uint64_t before = msi_tick();
        int64_t ns = msi_now();
        uint64_t took = msi_tick() - before;
        if (took >= least) continue;
        least = took;
        best = (struct msi_tick_look){before + took / 2, ns};
    }
    return best;
}
