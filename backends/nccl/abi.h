/*
 * abi.h - the part of the ABI of libnccl.so.2 and the CUDA runtime that the module uses, so that it builds
 * without them. If their headers are installed, tests/unit/test_nccl_abi.c compares them with this file.
 * Their enumerations are unsigned here, as in the ABI.
 */
#ifndef MNC_ABI_H
#define MNC_ABI_H

#include <limits.h>
#include <stddef.h>

typedef struct ncclComm *mnc_comm;
typedef struct CUstream_st *mnc_stream;
typedef struct CUevent_st *mnc_event;
struct cudaPointerAttributes; /* its size depends on the version; first are the type and the device */

typedef unsigned mnc_result;
enum {
    MNC_SUCCESS = 0,
    MNC_CUDA_ERROR = 1,
    MNC_SYSTEM_ERROR = 2,
    MNC_INVALID_ARGUMENT = 4,
    MNC_INVALID_USAGE = 5,
    MNC_REMOTE_ERROR = 6,
    MNC_IN_PROGRESS = 7,
};

enum { MNC_SUM = 0, MNC_PROD = 1, MNC_MAX = 2, MNC_MIN = 3, MNC_AVG = 4 };

enum {
    MNC_INT8 = 0,
    MNC_UINT8 = 1,
    MNC_INT32 = 2,
    MNC_UINT32 = 3,
    MNC_INT64 = 4,
    MNC_UINT64 = 5,
    MNC_FLOAT16 = 6,
    MNC_FLOAT32 = 7,
    MNC_FLOAT64 = 8,
    MNC_BFLOAT16 = 9,
    MNC_FLOAT8E4M3 = 10,
    MNC_FLOAT8E5M2 = 11,
};

enum { MNC_SCALAR_HOST = 1, MNC_UNDEFINED = INT_MIN };

typedef struct mnc_id {
    char bytes[128];
} mnc_id;

/* As in NCCL 2.18. Later versions read at most size bytes and treat later fields as undefined. */
typedef struct mnc_config {
    size_t size;
    unsigned magic;
    unsigned version;
    int blocking;
    int cga_cluster_size;
    int min_ctas;
    int max_ctas;
    const char *net_name;
    int split_share;
} mnc_config;
enum { MNC_CONFIG_VERSION = 21801 };
#define MNC_CONFIG_MAGIC 0xcafebeefu

/* X(result, name without its prefix, parameters); id and config: the names of those two types. */
#define MNC_NCCL_CALLS(X, id, config)                                                                        \
    X(mnc_result, GetVersion, (int *))                                                                       \
    X(mnc_result, GetUniqueId, (id *))                                                                       \
    X(mnc_result, CommInitRankConfig, (mnc_comm *, int, id, int, config *))                                  \
    X(mnc_result, CommSplit, (mnc_comm, int, int, mnc_comm *, config *))                                     \
    X(mnc_result, CommFinalize, (mnc_comm))                                                                  \
    X(mnc_result, CommDestroy, (mnc_comm))                                                                   \
    X(mnc_result, CommAbort, (mnc_comm))                                                                     \
    X(mnc_result, CommGetAsyncError, (mnc_comm, mnc_result *))                                               \
    X(const char *, GetErrorString, (mnc_result))                                                            \
    X(const char *, GetLastError, (mnc_comm))                                                                \
    X(mnc_result, RedOpCreatePreMulSum, (unsigned *, void *, unsigned, unsigned, mnc_comm))                  \
    X(mnc_result, RedOpDestroy, (unsigned, mnc_comm))                                                        \
    X(mnc_result, GroupStart, (void))                                                                        \
    X(mnc_result, GroupEnd, (void))                                                                          \
    X(mnc_result, Broadcast, (const void *, void *, size_t, unsigned, int, mnc_comm, mnc_stream))            \
    X(mnc_result, AllReduce, (const void *, void *, size_t, unsigned, unsigned, mnc_comm, mnc_stream))       \
    X(mnc_result, Reduce, (const void *, void *, size_t, unsigned, unsigned, int, mnc_comm, mnc_stream))     \
    X(mnc_result, AllGather, (const void *, void *, size_t, unsigned, mnc_comm, mnc_stream))                 \
    X(mnc_result, ReduceScatter, (const void *, void *, size_t, unsigned, unsigned, mnc_comm, mnc_stream))   \
    X(mnc_result, Send, (const void *, size_t, unsigned, int, mnc_comm, mnc_stream))                         \
    X(mnc_result, Recv, (void *, size_t, unsigned, int, mnc_comm, mnc_stream))

typedef unsigned mnc_error;
enum { MNC_CUDA_OK = 0, MNC_CUDA_NOT_READY = 600 };
enum { MNC_MEMORY_DEVICE = 2, MNC_MEMORY_MANAGED = 3 }; /* of struct cudaPointerAttributes */
enum { MNC_COPY_DEFAULT = 4, MNC_STREAM_NON_BLOCKING = 1, MNC_EVENT_DISABLE_TIMING = 2 };
enum { MNC_CAPABILITY_MAJOR = 75 };

#define MNC_CUDA_CALLS(X)                                                                                    \
    X(mnc_error, RuntimeGetVersion, (int *))                                                                 \
    X(mnc_error, DriverGetVersion, (int *))                                                                  \
    X(mnc_error, GetDeviceCount, (int *))                                                                    \
    X(mnc_error, GetDevice, (int *))                                                                         \
    X(mnc_error, SetDevice, (int))                                                                           \
    X(mnc_error, DeviceGetAttribute, (int *, unsigned, int))                                                 \
    X(mnc_error, GetLastError, (void))                                                                       \
    X(const char *, GetErrorString, (mnc_error))                                                             \
    X(mnc_error, StreamCreateWithFlags, (mnc_stream *, unsigned))                                            \
    X(mnc_error, StreamDestroy, (mnc_stream))                                                                \
    X(mnc_error, StreamWaitEvent, (mnc_stream, mnc_event, unsigned))                                         \
    X(mnc_error, StreamIsCapturing, (mnc_stream, unsigned *))                                                \
    X(mnc_error, EventCreateWithFlags, (mnc_event *, unsigned))                                              \
    X(mnc_error, EventDestroy, (mnc_event))                                                                  \
    X(mnc_error, EventRecord, (mnc_event, mnc_stream))                                                       \
    X(mnc_error, EventQuery, (mnc_event))                                                                    \
    X(mnc_error, EventElapsedTime, (float *, mnc_event, mnc_event))                                          \
    X(mnc_error, Malloc, (void **, size_t))                                                                  \
    X(mnc_error, Free, (void *))                                                                             \
    X(mnc_error, MemcpyAsync, (void *, const void *, size_t, unsigned, mnc_stream))                          \
    X(mnc_error, PointerGetAttributes, (struct cudaPointerAttributes *, const void *))

#endif
