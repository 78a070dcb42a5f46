/* device.c - see device.h. */
#include "bench/device.h"

#include "base/error.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CUDA_OK = 0, CUDA_COPY_DEFAULT = 4 /* either pointer may be on the device */ };

static struct {
    int (*GetDeviceCount)(int *count);
    int (*SetDevice)(int device);
    int (*Malloc)(void **memory, size_t bytes);
    int (*Free)(void *memory);
    int (*MemcpyAsync)(void *to, const void *from, size_t bytes, int kind, void *stream);
    int (*StreamSynchronize)(void *stream);
    const char *(*GetErrorString)(int error);
} cuda;

/* Prefers the runtime that the backend has already loaded. */
static void *open_runtime(void) {
    static const char *const names[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0",
                                        "libcudart.so"};
    const char *given = getenv("MUSTER_CUDART_LIBRARY");
    void *library = NULL;
    if (given && given[0] != '\0') return dlopen(given, RTLD_NOW);
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; !library && i < sizeof names / sizeof names[0]; i++)
            library = dlopen(names[i], pass == 0 ? RTLD_NOW | RTLD_NOLOAD : RTLD_NOW);
    return library;
}

static bool find(void *library, const char *name, void *call) {
    void *address = dlsym(library, name);
    memcpy(call, &address, sizeof address);
    return address;
}

mst_status device_open(int local_rank) {
    void *library = open_runtime();
    int devices = 0;
    if (!library)
        return msi_fail(MST_ERR_UNSUPPORTED, NULL, "the CUDA runtime cannot be loaded: %s", dlerror());
    if (!find(library, "cudaGetDeviceCount", &cuda.GetDeviceCount) ||
        !find(library, "cudaSetDevice", &cuda.SetDevice) || !find(library, "cudaMalloc", &cuda.Malloc) ||
        !find(library, "cudaFree", &cuda.Free) || !find(library, "cudaMemcpyAsync", &cuda.MemcpyAsync) ||
        !find(library, "cudaStreamSynchronize", &cuda.StreamSynchronize) ||
        !find(library, "cudaGetErrorString", &cuda.GetErrorString))
        return msi_fail(MST_ERR_UNSUPPORTED, NULL, "the CUDA runtime lacks a function: %s", dlerror());
    if (cuda.GetDeviceCount(&devices) != CUDA_OK || devices == 0)
        return msi_fail(MST_ERR_UNSUPPORTED, NULL, "there is no GPU");
    int error = cuda.SetDevice(local_rank % devices);
    if (error == CUDA_OK) return MST_OK;
    return msi_fail(MST_ERR_SYSTEM, NULL, "cudaSetDevice: %s", cuda.GetErrorString(error));
}

void *device_alloc(size_t bytes) {
    void *memory;
    return cuda.Malloc(&memory, bytes) == CUDA_OK ? memory : NULL;
}

void device_free(void *memory) {
    cuda.Free(memory);
}

void *device_copy(void *to, const void *from, size_t bytes) {
    int error = cuda.MemcpyAsync(to, from, bytes, CUDA_COPY_DEFAULT, NULL);
    if (error == CUDA_OK) error = cuda.StreamSynchronize(NULL);
    if (error == CUDA_OK) return to;
    fprintf(stderr, "cudaMemcpyAsync: %s\n", cuda.GetErrorString(error));
    abort();
}
