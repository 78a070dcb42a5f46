/*
 * cudart.c - a CUDA runtime without a GPU. Device memory is host memory; a list of its ranges distinguishes
 * the two. A stream is a thread that runs tasks in order, so enqueued work is as asynchronous as on a device.
 * An event belongs to a device and can be recorded only on streams of that device.
 *
 *   FAKE_CUDA_DEVICES   the number of GPUs (default 2)
 *   FAKE_CUDA_ELAPSED   milliseconds between any two events (default: the real time)
 *   FAKE_CUDA_CAPTURES  "1": all streams are being captured, and cudaEventQuery fails
 *   FAKE_CUDA_REPORT    a file to which each process appends a line with counts of calls at its end
 */
#include "fake_cuda.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

struct task {
    struct task *next;
    void (*run)(void *);
    void *argument;
};

struct CUstream_st {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct task *first, *last;
    bool ends;
    int device;
};

/* One record of an event. The event, the task and each wait hold it, so the event can be recorded again. */
struct record {
    atomic_int holders;
    atomic_bool done; /* stored (release) by a stream's thread, loaded (acquire) by queries and waits */
    double at;
};
static pthread_mutex_t records_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t record_done = PTHREAD_COND_INITIALIZER;

struct CUevent_st {
    struct record *last; /* NULL: never recorded, which counts as done */
    int device;          /* the current device at its creation */
};

static struct { atomic_int streams, events, records, queries, blocks, copies; } counts;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static void *run_tasks(void *argument) {
    struct CUstream_st *stream = argument;
    pthread_mutex_lock(&stream->lock);
    for (;;) {
        while (!stream->first && !stream->ends) pthread_cond_wait(&stream->changed, &stream->lock);
        struct task *task = stream->first;
        if (!task) break;
        stream->first = task->next;
        pthread_mutex_unlock(&stream->lock);
        task->run(task->argument);
        free(task);
        pthread_mutex_lock(&stream->lock);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

static void init_stream(struct CUstream_st *stream) {
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->changed, NULL);
    if (pthread_create(&stream->thread, NULL, run_tasks, stream)) abort();
}

static struct CUstream_st default_stream;
static void init_default(void) {
    init_stream(&default_stream);
}

EXPORT void fake_enqueue(mnc_stream stream, void (*run)(void *), void *argument) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct task *task = malloc(sizeof *task);
    if (!task) abort();
    if (!stream) pthread_once(&once, init_default);
    if (!stream) stream = &default_stream;
    *task = (struct task){NULL, run, argument};
    pthread_mutex_lock(&stream->lock);
    if (stream->first)
        stream->last->next = task;
    else
        stream->first = task;
    stream->last = task;
    pthread_cond_signal(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

static void report(void) {
    const char *path = getenv("FAKE_CUDA_REPORT");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file) return;
    fprintf(file, "streams %d events %d blocks %d records %d queries %d copies %d\n", counts.streams,
            counts.events, counts.blocks, counts.records, counts.queries, counts.copies);
    fclose(file);
}

__attribute__((constructor)) static void begin(void) {
    atexit(report);
}

#define DECLARE(result, name, parameters) EXPORT result cuda##name parameters;
MNC_CUDA_CALLS(DECLARE)
EXPORT mnc_error cudaStreamSynchronize(mnc_stream stream);
EXPORT mnc_error cudaMemset(void *memory, int value, size_t bytes);
EXPORT mnc_error cudaMemcpy(void *to, const void *from, size_t bytes, unsigned kind);

static int devices(void) {
    const char *given = getenv("FAKE_CUDA_DEVICES");
    return given ? atoi(given) : 2;
}

static _Thread_local int current;

mnc_error cudaRuntimeGetVersion(int *version) {
    *version = 13000;
    return 0;
}

mnc_error cudaDriverGetVersion(int *version) {
    *version = devices() ? 13000 : 0;
    return 0;
}

mnc_error cudaGetDeviceCount(int *count) {
    *count = devices();
    return *count ? 0 : 100;
}

mnc_error cudaGetDevice(int *device) {
    *device = current;
    return 0;
}

mnc_error cudaSetDevice(int device) {
    if (device < 0 || device >= devices()) return 101;
    current = device;
    return 0;
}

mnc_error cudaDeviceGetAttribute(int *value, unsigned attribute, int device) {
    *value = attribute == MNC_CAPABILITY_MAJOR && device < devices() ? 9 : 0;
    return 0;
}

mnc_error cudaGetLastError(void) {
    return 0;
}

const char *cudaGetErrorString(mnc_error error) {
    return error == 0 ? "no error" : error == 100 ? "no CUDA-capable device is detected" : "some fake error";
}

mnc_error cudaStreamCreateWithFlags(mnc_stream *stream, unsigned flags) {
    (void)flags;
    *stream = calloc(1, sizeof **stream);
    if (!*stream) return 2;
    (*stream)->device = current;
    init_stream(*stream);
    counts.streams++;
    return 0;
}

mnc_error cudaStreamDestroy(mnc_stream stream) {
    pthread_mutex_lock(&stream->lock);
    stream->ends = true;
    pthread_cond_signal(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
    counts.streams--;
    return 0;
}

mnc_error cudaEventCreateWithFlags(mnc_event *event, unsigned flags) {
    (void)flags;
    *event = calloc(1, sizeof **event);
    if (!*event) return 2;
    (*event)->device = current;
    counts.events++;
    return 0;
}

static void release_record(struct record *record) {
    if (record && atomic_fetch_sub(&record->holders, 1) == 1) free(record);
}

mnc_error cudaEventDestroy(mnc_event event) {
    release_record(event->last);
    free(event);
    counts.events--;
    return 0;
}

static void run_record(void *argument) {
    struct record *record = argument;
    record->at = now();
    pthread_mutex_lock(&records_lock);
    atomic_store_explicit(&record->done, true, memory_order_release);
    pthread_cond_broadcast(&record_done);
    pthread_mutex_unlock(&records_lock);
    release_record(record);
}

mnc_error cudaEventRecord(mnc_event event, mnc_stream stream) {
    if (event->device != (stream ? stream->device : current)) return 400; /* cudaErrorInvalidResourceHandle */
    release_record(event->last);
    event->last = calloc(1, sizeof *event->last);
    if (!event->last) abort();
    event->last->holders = 2;
    counts.records++;
    fake_enqueue(stream, run_record, event->last);
    return 0;
}

static bool is_done(struct record *record) {
    return !record || atomic_load_explicit(&record->done, memory_order_acquire);
}

static void await_record(struct record *record) {
    pthread_mutex_lock(&records_lock);
    while (!is_done(record)) pthread_cond_wait(&record_done, &records_lock);
    pthread_mutex_unlock(&records_lock);
}

static bool captures(void) {
    const char *given = getenv("FAKE_CUDA_CAPTURES");
    return given && *given == '1';
}

mnc_error cudaStreamIsCapturing(mnc_stream stream, unsigned *status) {
    *status = stream && captures();
    return 0;
}

mnc_error cudaEventQuery(mnc_event event) {
    counts.queries++;
    if (captures()) return 900; /* cudaErrorStreamCaptureUnsupported */
    return is_done(event->last) ? 0 : MNC_CUDA_NOT_READY;
}

static void run_wait(void *argument) {
    struct record *record = argument;
    await_record(record);
    release_record(record);
}

mnc_error cudaStreamWaitEvent(mnc_stream stream, mnc_event event, unsigned flags) {
    (void)flags;
    if (event->last) atomic_fetch_add(&event->last->holders, 1);
    if (event->last) fake_enqueue(stream, run_wait, event->last);
    return 0;
}

mnc_error cudaEventElapsedTime(float *milliseconds, mnc_event begin_event, mnc_event end_event) {
    if (!is_done(begin_event->last) || !is_done(end_event->last)) return MNC_CUDA_NOT_READY;
    const char *given = getenv("FAKE_CUDA_ELAPSED");
    *milliseconds = given ? (float)atof(given) : (float)(end_event->last->at - begin_event->last->at);
    return 0;
}

mnc_error cudaStreamSynchronize(mnc_stream stream) {
    mnc_event event;
    cudaEventCreateWithFlags(&event, 0);
    if (stream) event->device = stream->device;
    cudaEventRecord(event, stream);
    await_record(event->last);
    return cudaEventDestroy(event);
}

struct range {
    struct range *next;
    size_t bytes;
    int device; /* the current device at its creation */
    char data[];
};
static struct range *ranges;
static pthread_mutex_t ranges_lock = PTHREAD_MUTEX_INITIALIZER;

mnc_error cudaMalloc(void **memory, size_t bytes) {
    struct range *range = malloc(sizeof *range + bytes);
    if (!range) return 2;
    pthread_mutex_lock(&ranges_lock);
    *range = (struct range){ranges, bytes, current};
    ranges = range;
    pthread_mutex_unlock(&ranges_lock);
    *memory = range->data;
    counts.blocks++;
    return 0;
}

mnc_error cudaFree(void *memory) {
    pthread_mutex_lock(&ranges_lock);
    struct range **at = &ranges;
    while (*at && (*at)->data != memory) at = &(*at)->next;
    struct range *range = *at;
    if (range) *at = range->next;
    pthread_mutex_unlock(&ranges_lock);
    if (memory && !range) return 1;
    if (range) counts.blocks--;
    free(range);
    return 0;
}

mnc_error cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer) {
    int found[2] = {0, 0}; /* the type and the device */
    pthread_mutex_lock(&ranges_lock);
    for (struct range *range = ranges; range && !found[0]; range = range->next) {
        if ((uintptr_t)pointer - (uintptr_t)range->data >= range->bytes) continue;
        found[0] = MNC_MEMORY_DEVICE;
        found[1] = range->device;
    }
    pthread_mutex_unlock(&ranges_lock);
    memcpy(attributes, found, sizeof found);
    return 0;
}

struct copy {
    void *to;
    const void *from;
    size_t bytes;
};

static void run_copy(void *argument) {
    struct copy *copy = argument;
    memmove(copy->to, copy->from, copy->bytes);
    free(copy);
}

mnc_error cudaMemcpyAsync(void *to, const void *from, size_t bytes, unsigned kind, mnc_stream stream) {
    struct copy *copy = malloc(sizeof *copy);
    (void)kind;
    if (!copy) abort();
    *copy = (struct copy){to, from, bytes};
    counts.copies++;
    fake_enqueue(stream, run_copy, copy);
    return 0;
}

mnc_error cudaMemcpy(void *to, const void *from, size_t bytes, unsigned kind) {
    cudaMemcpyAsync(to, from, bytes, kind, NULL);
    return cudaStreamSynchronize(NULL);
}

mnc_error cudaMemset(void *memory, int value, size_t bytes) {
    memset(memory, value, bytes);
    return 0;
}
