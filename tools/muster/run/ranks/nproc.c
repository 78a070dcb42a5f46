/* nproc.c - counts processors and devices. See nproc.h. Runs on the main thread before the job starts. */
#include "run/ranks/nproc.h"

#include "base/error.h"
#include "cli/options.h"
#include "run/ranks/bind.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static int count_cpus(void) {
    size_t size;
    cpu_set_t *set = bind_allowed(&size);
    int n = set ? CPU_COUNT_S(size, set) : 1;
    if (set) CPU_FREE(set);
    return n > 0 ? n : 1;
}

/* True for nvidia0, false for nvidiactl and nvidia-uvm. */
static bool is_device(const char *name) {
    if (strncmp(name, "nvidia", 6) != 0 || !name[6]) return false;
    return strspn(name + 6, "0123456789") == strlen(name + 6);
}

static int count_devices(const char *dir) {
    DIR *entries = opendir(dir);
    int n = 0;
    if (!entries) return 0;
    for (const struct dirent *entry; (entry = readdir(entries));) n += is_device(entry->d_name);
    closedir(entries);
    return n;
}

/* Reads the list as CUDA does: it ends before the first entry that is not a device. */
static int count_visible(const char *list, int devices) {
    int n = 0;
    while (*list && n < devices) {
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
    return visible ? count_visible(visible, devices) : devices;
}

mst_status nproc_read(const char *text, int *n) {
    bool either = !strcmp(text, "auto"), gpu = !strcmp(text, "gpu");
    long long number;
    if (either || gpu) *n = nproc_gpus("/dev", getenv("CUDA_VISIBLE_DEVICES"));
    if ((either || gpu) && *n > 0) return MST_OK;
    if (gpu)
        return msi_fail(MST_ERR_INVALID, NULL, "-n gpu finds no device: %s",
                        nproc_gpus("/dev", NULL) == 0 ? "there is no /dev/nvidia0 or the like"
                                                      : "CUDA_VISIBLE_DEVICES hides them all");
    if (either || !strcmp(text, "cpu")) {
        *n = count_cpus();
        return MST_OK;
    }
    if (!opt_read_number(text, 1, NPROC_MAX, &number))
        return msi_fail(MST_ERR_INVALID, NULL,
                        "-n/--nproc-per-node takes a whole number from 1 to %d, cpu, gpu or auto, not '%s'",
                        NPROC_MAX, text);
    *n = (int)number;
    return MST_OK;
}
