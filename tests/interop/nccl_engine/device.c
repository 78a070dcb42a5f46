/* device.c - the program's own use of the CUDA runtime, which it loads as the module does. */
#include "kit.h"

#include "backends/nccl/abi.h"

#include <dlfcn.h>

#define FIELD(result, name, parameters) result(*name) parameters;
static struct {
    MNC_CUDA_CALLS(FIELD)
    FIELD(mnc_error, StreamSynchronize, (mnc_stream))
} cuda;

void device_init(void) {
    const char *given = getenv("MUSTER_CUDART_LIBRARY");
    void *library = dlopen(given ? given : "libcudart.so.13", RTLD_NOW);
    if (!library) library = dlopen("libcudart.so.12", RTLD_NOW);
    REQUIRE(library);
#define FIND(result, name, parameters)                                                                       \
    {                                                                                                        \
        void *address = dlsym(library, "cuda" #name);                                                        \
        REQUIRE(address);                                                                                    \
        memcpy(&cuda.name, &address, sizeof address);                                                        \
    }
    MNC_CUDA_CALLS(FIND)
    FIND(mnc_error, StreamSynchronize, (mnc_stream))
}

void *device_new(size_t bytes) {
    void *memory = NULL, *fill = malloc(bytes + 1);
    REQUIRE(fill && cuda.Malloc(&memory, bytes + 1) == MNC_CUDA_OK);
    memset(fill, 0xee, bytes + 1);
    upload(memory, fill, bytes + 1);
    free(fill);
    return memory;
}

void device_free(void *memory) {
    REQUIRE(cuda.Free(memory) == MNC_CUDA_OK);
}

static void copy(void *to, const void *from, size_t bytes) {
    copy_on(NULL, to, from, bytes);
    stream_wait(NULL);
}

void upload(void *to, const void *from, size_t bytes) {
    copy(to, from, bytes);
}

void download(void *to, const void *from, size_t bytes) {
    copy(to, from, bytes);
}

void *stream_new(void) {
    mnc_stream stream;
    REQUIRE(cuda.StreamCreateWithFlags(&stream, MNC_STREAM_NON_BLOCKING) == MNC_CUDA_OK);
    return stream;
}

void stream_end(void *stream) {
    REQUIRE(cuda.StreamDestroy(stream) == MNC_CUDA_OK);
}

void copy_on(void *stream, void *to, const void *from, size_t bytes) {
    REQUIRE(cuda.MemcpyAsync(to, from, bytes, MNC_COPY_DEFAULT, stream) == MNC_CUDA_OK);
}

void stream_wait(void *stream) {
    REQUIRE(cuda.StreamSynchronize(stream) == MNC_CUDA_OK);
}
