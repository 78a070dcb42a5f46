/* nproc.c - counts processors and devices; see nproc.h. The main thread uses it before anything is started. */
#include "run/ranks/nproc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CPUS_FIRST_GUESS = 1024, CPUS_AT_MOST = 1 << 20 };

static int count_cpus(void) {
    for (int room = CPUS_FIRST_GUESS; room <= CPUS_AT_MOST; room *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)room);
        size_t size = CPU_ALLOC_SIZE((size_t)room);
        int n = 0;

        if (set == NULL) return 1;
        bool fits = sched_getaffinity(0, size, set) == 0;
        bool too_small = !fits && errno == EINVAL;
        if (fits) n = CPU_COUNT_S(size, set);
        CPU_FREE(set);
        if (!too_small) return n > 0 ? n : 1;
    }
    return 1;
}

/* nvidia0, but neither nvidiactl nor nvidia-uvm */
static bool is_device(const char *name) {
    if (strncmp(name, "nvidia", 6) != 0 || name[6] == '\0') return false;
    return strspn(name + 6, "0123456789") == strlen(name + 6);
}

static int count_devices(const char *dir) {
    DIR *entries = opendir(dir);
    int n = 0;

    if (entries == NULL) return 0;
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) n += is_device(entry->d_name);
    closedir(entries);
    return n;
}

/* As CUDA reads it: the list ends before the first entry that is no device. */
static int count_visible(const char *list, int devices) {
    int n = 0;

    while (*list != '\0' && n < devices) {
        char *end;
        long index = strtol(list, &end, 10);

        if (end == list ? !isalpha((unsigned char)*list) : index < 0 || index >= devices) break;
        n++;
        list += strcspn(list, ",");
        list += *list == ',';
    }
    return n;
}

int nproc_gpus(const char *dir, const char *visible) {
    int devices = count_devices(dir);
    return visible != NULL ? count_visible(visible, devices) : devices;
}

static bool read_number(const char *text, int *n) {
    char *end;
    long value = strtol(text, &end, 10);

    if (end == text || *end != '\0' || value < 1 || value > NPROC_MAX) return false;
    *n = (int)value;
    return true;
}

int nproc_read(const char *text, int *n, char *why, size_t why_size) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    bool either = strcmp(text, "auto") == 0;

    if (either || strcmp(text, "gpu") == 0) {
        *n = nproc_gpus("/dev", visible);
        if (*n > 0) return 0;
        if (!either) {
            snprintf(why, why_size, "-n gpu finds no device: %s",
                     nproc_gpus("/dev", NULL) == 0 ? "there is no /dev/nvidia0 or the like"
                                                   : "CUDA_VISIBLE_DEVICES hides them all");
            return -1;
        }
    }
    if (either || strcmp(text, "cpu") == 0) {
        *n = count_cpus();
        return 0;
    }
    if (read_number(text, n)) return 0;
    snprintf(why, why_size,
             "-n/--nproc-per-node takes a whole number from 1 to %d, cpu, gpu or auto, not '%s'", NPROC_MAX,
             text);
    return -1;
}
