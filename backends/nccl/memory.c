/*
 * memory.c - device memory. Released blocks are cached, because cudaFree waits for all work on the device,
 * including receives whose message has not been sent.
 */
#include "engine.h"

#include <stdlib.h>

enum { SMALLEST = 512, COPY_LIMIT_MS = 300000 };
static const size_t idle_limit = (size_t)1 << 30;

/* Sets *device unless it is host memory. Managed memory counts as device memory, registered host memory does
 * not. */
static bool is_device_memory(const void *pointer, int *device) {
    union {
        struct {
            int type, device;
        } first;
        long storage[32];
    } attributes = {.storage = {0}};
    mnc_error error =
        mnc_cuda.PointerGetAttributes((struct cudaPointerAttributes *)(void *)&attributes, pointer);
    if (error != MNC_CUDA_OK) {
        mnc_cuda.GetLastError();
        return false;
    }
    *device = attributes.first.device;
    return attributes.first.type == MNC_MEMORY_DEVICE || attributes.first.type == MNC_MEMORY_MANAGED;
}

mst_memory mnc_memory_of(const void *pointer) {
    int device;
    return is_device_memory(pointer, &device) ? MST_MEMORY_CUDA : MST_MEMORY_HOST;
}

int mnc_device_of(const void *pointer) {
    int device;
    return is_device_memory(pointer, &device) ? device : -1;
}

static struct mnc_block *new_block(size_t bytes) {
    struct mnc_block *block = calloc(1, sizeof *block);
    if (!block) return NULL;
    block->bytes = bytes;
    if (mnc_cuda.Malloc(&block->memory, bytes) == MNC_CUDA_OK) return block;
    mnc_cuda.GetLastError();
    free(block);
    return NULL;
}

void *mnc_alloc(mst_backend_engine *engine, size_t bytes) {
    size_t size = SMALLEST;
    while (size < bytes && size <= SIZE_MAX / 4) size *= 2;
    if (size < bytes) return NULL;
    mnc_use_device(engine);
    struct mnc_block *block = engine->blocks;
    while (block && (block->used || block->bytes != size)) block = block->next;
    if (block) {
        engine->idle_bytes -= size;
    } else {
        block = new_block(size);
        if (!block) return NULL;
        block->next = engine->blocks;
        engine->blocks = block;
    }
    block->used = true;
    return block->memory;
}

void mnc_release(mst_backend_engine *engine, void *memory) {
    for (struct mnc_block **at = &engine->blocks; *at; at = &(*at)->next) {
        struct mnc_block *block = *at;
        if (block->memory != memory) continue;
        block->used = false;
        engine->idle_bytes += block->bytes;
        if (engine->idle_bytes <= idle_limit || engine->ended) return;
        engine->idle_bytes -= block->bytes;
        *at = block->next;
        mnc_cuda.Free(block->memory);
        free(block);
        return;
    }
}

void mnc_blocks_end(mst_backend_engine *engine) {
    for (struct mnc_block *block; (block = engine->blocks);) {
        engine->blocks = block->next;
        mnc_cuda.Free(block->memory);
        free(block);
    }
}

/* Polls until all work on the main stream is done. Fails at the deadline: the work may never complete. */
static mst_status drain(mst_backend_engine *engine, int64_t deadline) {
    mnc_error error = mnc_cuda.EventRecord(engine->order, engine->main.stream);
    mst_status st = MST_OK;
    if (error == MNC_CUDA_OK) error = mnc_cuda.EventQuery(engine->order);
    for (unsigned round = 0; error == MNC_CUDA_NOT_READY && st == MST_OK; round++) {
        bool busy;
        mnc_backoff(round);
        error = mnc_cuda.EventQuery(engine->order);
        if (round % 64 != 63) continue;
        st = mnc_check_comm(engine, engine->blocking, "an operation", &busy);
        if (st == MST_OK && mnc_now() > deadline)
            return engine->host->fail(engine->host, MST_ERR_TIMEOUT, -1, NULL,
                                      "a copy waits for operations that do not complete");
    }
    return st == MST_OK && error != MNC_CUDA_OK ? mnc_fail_cuda(engine, error, "cudaMemcpyAsync") : st;
}

/* Drains the stream first: a copy into pageable memory would wait for it in CUDA, without a deadline. */
mst_status mnc_copy(mst_backend_engine *engine, void *to, const void *from, size_t bytes) {
    int64_t deadline = mnc_now() + COPY_LIMIT_MS * MNC_MS;
    mnc_use_device(engine);
    mst_status st = mnc_stream_wait(engine, NULL, engine->main.stream);
    if (st == MST_OK) st = drain(engine, deadline);
    if (st != MST_OK || !bytes) return st;
    mnc_error error = mnc_cuda.MemcpyAsync(to, from, bytes, MNC_COPY_DEFAULT, engine->main.stream);
    return error == MNC_CUDA_OK ? drain(engine, deadline) : mnc_fail_cuda(engine, error, "cudaMemcpyAsync");
}
