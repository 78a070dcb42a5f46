/* host.c - names and processors of this machine. See host.h; interfaces are in netif.c. */
#include "os/host.h"
#include "base/hash.h"
#include "os/file.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

const char *msi_host_name(char out[MSI_HOST_MAX]) {
    if (gethostname(out, MSI_HOST_MAX)) strcpy(out, "localhost");
    out[MSI_HOST_MAX - 1] = 0;
    return out;
}

const char *msi_host_key(char out[MSI_HOST_KEY_MAX]) {
    char boot[64];
    struct stat space = {0};
    msi_file_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    if (stat("/proc/self/ns/pid", &space)) space.st_ino = 0;
    snprintf(out, MSI_HOST_KEY_MAX, "%s.%llu.%u", boot[0] ? boot : "?", (unsigned long long)space.st_ino,
             (unsigned)getuid());
    return out;
}

bool msi_process_is_stopped(int pid) {
    char path[32], line[256];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    msi_file_line(path, line, sizeof line);
    const char *state = strrchr(line, ')'); /* the name before it may contain anything */
    return state && state[1] == ' ' && (state[2] == 'T' || state[2] == 't');
}

const char *msi_cpu_features(char *out, size_t size) {
#if defined(__aarch64__)
    unsigned long caps = getauxval(AT_HWCAP);
    snprintf(out, size, "neon%s%s", caps & (1ul << 22) ? " sve" : "", caps & (1ul << 8) ? " atomics" : "");
#elif defined(__x86_64__)
    __builtin_cpu_init();
    snprintf(out, size, "sse2%s%s%s%s", __builtin_cpu_supports("avx") ? " avx" : "",
             __builtin_cpu_supports("avx2") ? " avx2" : "", __builtin_cpu_supports("fma") ? " fma" : "",
             __builtin_cpu_supports("avx512f") ? " avx512f" : "");
#else
    snprintf(out, size, "none known");
#endif
    return out;
}

/* /proc/cpuinfo names ARM cores by number; these are server cores. */
static const char *arm_name(const char *part) {
    static const char *const known[][2] = {{"0xd0c", "Neoverse N1"},
                                           {"0xd40", "Neoverse V1"},
                                           {"0xd49", "Neoverse N2"},
                                           {"0xd4f", "Neoverse V2"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(part, known[i][0])) return known[i][1];
    return NULL;
}

const char *msi_cpu_name(char *out, size_t size) {
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256];
    snprintf(out, size, "unknown");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        bool named = !strncmp(line, "model name", 10), part = !strncmp(line, "CPU part", 8);
        if (!colon || (!named && !part)) continue;
        colon[strcspn(colon, "\n")] = 0;
        const char *arm = part ? arm_name(colon + 2) : NULL;
        snprintf(out, size, "%s%s", part && !arm ? "ARM part " : "", arm ? arm : colon + 2);
        if (named) break;
    }
    if (file) fclose(file);
    return out;
}

int msi_forks_known;

static void count_fork(void) {
    msi_forks_known++;
}

static void watch_forks(void) {
    pthread_atfork(NULL, NULL, count_fork);
}

int msi_forks(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    return msi_forks_known;
}

uint64_t msi_process_token(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t token;
    static int forks = -1;
    pthread_mutex_lock(&lock);
    if (forks != msi_forks()) msi_random(&token, sizeof token);
    forks = msi_forks();
    uint64_t own = token;
    pthread_mutex_unlock(&lock);
    return own;
}

int msi_pid(void) {
    /* Forks + 1, and the pid in the upper 32 bits; all threads store the same value. */
    static _Atomic uint64_t known;
    uint64_t forks = (uint32_t)msi_forks() + 1u, seen = atomic_load_explicit(&known, memory_order_relaxed);
    if ((uint32_t)seen == forks) return (int)(seen >> 32);
    int pid = (int)getpid();
    atomic_store_explicit(&known, (uint64_t)(uint32_t)pid << 32 | forks, memory_order_relaxed);
    return pid;
}
