/*
 * device.c - GPU memory, by the CUDA runtime: libcudart.so, or the library of MUSTER_CUDART_LIBRARY. The
 * local rank selects the GPU.
 *
 * All buffers of a batch come from one block, because allocating and freeing may wait for running kernels.
 */
#include "suite.h"

#include <dlfcn.h>

static const size_t arena_bytes = (size_t)1 << 30;
static char *arena;
static size_t used;
static int (*memory_copy)(void *, const void *, size_t, int);

static void *find(void *library, const char *name) {
    void *address = library ? dlsym(library, name) : NULL;
    if (address) return address;
    printf("collective: skipped: no %s: %s\n", name, dlerror());
    exit(77);
}

void device_begin(void) {
    static const char *const names[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so"};
    const char *given = getenv("MUSTER_CUDART_LIBRARY");
    void *library = given ? dlopen(given, RTLD_NOW) : NULL;
    for (size_t i = 0; !given && !library && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_NOW);
    int (*count)(int *), (*set)(int), (*allocate)(void **, size_t), devices = 0;
    void *addresses[] = {find(library, "cudaGetDeviceCount"), find(library, "cudaSetDevice"),
                         find(library, "cudaMalloc"), find(library, "cudaMemcpy")};
    memcpy(&count, &addresses[0], sizeof count);
    memcpy(&set, &addresses[1], sizeof set);
    memcpy(&allocate, &addresses[2], sizeof allocate);
    memcpy(&memory_copy, &addresses[3], sizeof memory_copy);
    void *memory = NULL;
    if (count(&devices) || devices < 1 || set(mst_get_local_rank(NULL) % devices) ||
        allocate(&memory, arena_bytes)) {
        printf("collective: skipped: no GPU, or not enough memory on it\n");
        exit(77);
    }
    arena = memory;
}

char *device_alloc(size_t bytes) {
    size_t rounded = (bytes + 255) & ~(size_t)255;
    if (rounded > arena_bytes - used) return NULL;
    used += rounded;
    return arena + used - rounded;
}

void device_end_batch(void) {
    used = 0;
}

void device_copy(void *to, const void *from, size_t bytes) {
    enum { ANY_DIRECTION = 4 }; /* cudaMemcpyDefault */
    int error = memory_copy(to, from, bytes, ANY_DIRECTION);
    if (!error) return;
    fprintf(stderr, "collective: FAILED on rank %d: cudaMemcpy: error %d\n", suite.me, error);
    exit(1);
}
