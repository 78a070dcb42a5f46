/* load.c - loads libnccl.so.2 and the CUDA runtime, and reports what is missing. Any thread. */
#include "engine.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST = 21801 }; /* the first version with ncclCommSplit, which open.c needs */

struct mnc_nccl mnc_nccl;
struct mnc_cuda mnc_cuda;
struct mnc_found mnc_found;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool loaded; /* under the lock */

/*
 * Prefers a library that the program has already loaded, because pointers of two CUDA runtimes are not
 * interchangeable. names ends with NULL. setting is an environment variable that overrides the names.
 */
static void *open_library(const char *title, const char *const *names, const char *setting, char *text,
                          size_t size) {
    const char *given = getenv(setting);
    const char *const one[] = {given, NULL};
    char why[400] = "";
    if (given && *given) names = one;
    for (const char *const *name = names; *name; name++) {
        void *library = dlopen(*name, RTLD_NOW | RTLD_NOLOAD);
        if (library) return library;
    }
    size_t used = 0;
    for (const char *const *name = names; *name; name++) {
        void *library = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
        if (library) return library;
        const char *error = dlerror();
        int n = snprintf(why + used, sizeof why - used, "%s%s", used ? "; " : "", error ? error : *name);
        used = n < 0 || (size_t)n >= sizeof why - used ? sizeof why - 1 : used + (size_t)n;
    }
    snprintf(
        text, size,
        "%s cannot be loaded (%s): install it, add its directory to LD_LIBRARY_PATH, or set %s to the file",
        title, why, setting);
    return NULL;
}

struct call {
    const char *name;
    void *at; /* address of the function pointer to set */
};

static const char *find_calls(void *library, const struct call *calls, size_t n) {
    for (size_t i = 0; i < n; i++) {
        void *address = dlsym(library, calls[i].name);
        if (!address) return calls[i].name;
        memcpy(calls[i].at, &address, sizeof address);
    }
    return NULL;
}

static bool load_nccl(char *text, size_t size) {
    static const char *const names[] = {"libnccl.so.2", "libnccl.so", NULL};
#define CALL(result, name, parameters) {"nccl" #name, &mnc_nccl.name},
    static const struct call calls[] = {MNC_NCCL_CALLS(CALL, mnc_id, mnc_config)};
#undef CALL
    void *library = open_library("NCCL", names, "MUSTER_NCCL_LIBRARY", text, size);
    if (!library) return false;
    const char *missing = find_calls(library, calls, sizeof calls / sizeof *calls);
    int version = 0;
    if (mnc_nccl.GetVersion) mnc_nccl.GetVersion(&version); /* the first in the table */
    if (missing || version < OLDEST) {
        snprintf(
            text, size,
            "NCCL %d.%d.%d is too old%s%s: this needs 2.18.1 or later; set MUSTER_NCCL_LIBRARY to another",
            version / 10000, version / 100 % 100, version % 100, missing ? ", it has no " : "",
            missing ? missing : "");
        return false;
    }
    mnc_found.nccl = version;
    return true;
}

static bool load_cuda(char *text, size_t size) {
    static const char *const names[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0",
                                        "libcudart.so", NULL};
#define CALL(result, name, parameters) {"cuda" #name, &mnc_cuda.name},
    static const struct call calls[] = {MNC_CUDA_CALLS(CALL)};
#undef CALL
    void *library = open_library("the CUDA runtime", names, "MUSTER_CUDART_LIBRARY", text, size);
    if (!library) return false;
    const char *missing = find_calls(library, calls, sizeof calls / sizeof *calls);
    if (missing) {
        snprintf(text, size,
                 "the CUDA runtime has no %s: set MUSTER_CUDART_LIBRARY to one of version 11 to 13", missing);
        return false;
    }
    mnc_cuda.RuntimeGetVersion(&mnc_found.runtime);
    mnc_cuda.DriverGetVersion(&mnc_found.driver);
    return true;
}

static bool find_devices(char *text, size_t size) {
    mnc_error error = mnc_cuda.GetDeviceCount(&mnc_found.devices);
    if (error == MNC_CUDA_OK && mnc_found.devices > 0) {
        mnc_cuda.DeviceGetAttribute(&mnc_found.capability, MNC_CAPABILITY_MAJOR, 0);
        return true;
    }
    mnc_cuda.GetLastError(); /* clears it */
    char driver[48] = "and no driver";
    if (mnc_found.driver)
        snprintf(driver, sizeof driver, "driver for %d.%d", mnc_found.driver / 1000,
                 mnc_found.driver / 10 % 100);
    snprintf(
        text, size,
        "no GPU can be used here: %s (CUDA runtime %d.%d, %s); check nvidia-smi and CUDA_VISIBLE_DEVICES",
        error == MNC_CUDA_OK ? "there is none" : mnc_cuda.GetErrorString(error), mnc_found.runtime / 1000,
        mnc_found.runtime / 10 % 100, driver);
    return false;
}

/* Retries after a failure: the program may load the library or set the variable later. */
bool mnc_probe(char *text, size_t size) {
    pthread_mutex_lock(&lock);
    loaded = loaded || (load_nccl(text, size) && load_cuda(text, size) && find_devices(text, size));
    bool usable = loaded;
    if (usable)
        snprintf(text, size, "NCCL %d.%d.%d, CUDA runtime %d.%d, driver for %d.%d, %d GPU%s",
                 mnc_found.nccl / 10000, mnc_found.nccl / 100 % 100, mnc_found.nccl % 100,
                 mnc_found.runtime / 1000, mnc_found.runtime / 10 % 100, mnc_found.driver / 1000,
                 mnc_found.driver / 10 % 100, mnc_found.devices, mnc_found.devices == 1 ? "" : "s");
    pthread_mutex_unlock(&lock);
    return usable;
}
