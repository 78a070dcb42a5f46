/*
 * status.h - status codes and the details of the last error.
 *
 * Every fallible call returns mst_status; MST_OK is zero. The scope of a status tells what the caller must
 * recreate after the error: nothing (repeat the call), the work, the group, or the world of the process.
 */
#ifndef MUSTER_STATUS_H
#define MUSTER_STATUS_H

#include <stdint.h>

/*  X(number, name, scope, text) */
#define MST_STATUS_TABLE(X)                                                                                  \
    X(0, OK, NONE, "success")                                                                                \
    X(1, ERR_INVALID, CALL, "invalid argument")                                                              \
    X(2, ERR_STATE, CALL, "not possible in the present state")                                               \
    X(3, ERR_UNSUPPORTED, CALL, "not supported here")                                                        \
    X(4, ERR_NOT_FOUND, CALL, "no such key")                                                                 \
    X(5, ERR_TIMEOUT, CALL, "the deadline passed")                                                           \
    X(6, ERR_CANCELLED, CALL, "cancelled by the caller")                                                     \
    X(7, ERR_MEMORY, CALL, "out of memory")                                                                  \
    X(8, ERR_LIMIT, CALL, "larger than the limit")                                                           \
    X(9, ERR_SYSTEM, CALL, "a system call failed")                                                           \
    X(10, ERR_CONFIG, PROCESS, "a setting is malformed or missing")                                          \
    X(11, ERR_ADDRESS, CALL, "the address cannot be used")                                                   \
    X(12, ERR_PORT_TAKEN, CALL, "the port is taken")                                                         \
    X(13, ERR_UNREACHABLE, CALL, "no answer from the address")                                               \
    X(14, ERR_STORE_LOST, PROCESS, "the connection to the store is lost")                                    \
    X(15, ERR_PROTOCOL, CALL, "the peer violated the protocol")                                              \
    X(16, ERR_NOT_MEMBER, CALL, "the caller is not in this group")                                           \
    X(17, ERR_MISSING_RANK, PROCESS, "ranks did not arrive in time")                                         \
    X(18, ERR_DUPLICATE_RANK, PROCESS, "two processes have the same rank")                                   \
    X(19, ERR_WORLD_SIZE, PROCESS, "ranks disagree about the world size")                                    \
    X(20, ERR_VERSION, PROCESS, "ranks run incompatible versions of muster")                                 \
    X(21, ERR_STALE, PROCESS, "data of an earlier job")                                                      \
    X(22, ERR_PEER_LOST, GROUP, "a rank of the group died or left")                                          \
    X(23, ERR_STALLED, GROUP, "ranks of the group did not take part in time")                                \
    X(24, ERR_INTERNAL, PROCESS, "an internal error in muster")                                              \
    X(25, ERR_STORE_ENDED, PROCESS, "the process that hosts the store has closed it")                        \
    X(26, ERR_MISMATCH, GROUP, "the ranks of the group made different calls")                                \
    X(27, ERR_CALLBACK, GROUP, "a callback of the program failed")

#ifdef __cplusplus
extern "C" {
#endif

#define MST_STATUS_ENTRY(number, name, scope, text) MST_##name = (number),
typedef enum mst_status { MST_STATUS_TABLE(MST_STATUS_ENTRY) MST_STATUS_COUNT } mst_status;
#undef MST_STATUS_ENTRY

typedef enum mst_scope {
    MST_SCOPE_NONE,    /* no error */
    MST_SCOPE_CALL,    /* only this call failed; the handle stays usable */
    MST_SCOPE_WORK,    /* this work handle */
    MST_SCOPE_GROUP,   /* this group; other groups stay usable */
    MST_SCOPE_PROCESS, /* the world of this process */
} mst_scope;

/* The source location of a call, for errors and the profiler. */
typedef struct mst_site {
    const char *file;
    const char *function;
    int line;
} mst_site;

/* Return the name ("MST_ERR_TIMEOUT"), text and scope of a status; "MST_UNKNOWN" for an invalid number. */
const char *mst_status_name(mst_status status);
const char *mst_status_text(mst_status status);
mst_scope mst_status_scope(mst_status status);

/* The calling thread's last error. The strings are valid until the thread's next failing call. */
typedef struct mst_error_info {
    mst_status status;
    int rank;              /* the caller's rank, -1 before mst_init */
    int culprit;           /* the rank that caused the error, -1 if unknown */
    const char *operation; /* "mst_barrier" */
    uint64_t sequence;     /* number of the operation in its group, 0 if not counted */
    mst_site site;         /* file is NULL if unknown */
    const char *message;   /* what failed */
    const char *remedy;    /* how to fix it; "" if unknown */
    /* The ranks of the world that the call waited for in vain, as far as they are known; at most 64. */
    const int *missing;
    int n_missing;
} mst_error_info;

/*
 * Returns the calling thread's last error as one line: rank, operation, call site, message and remedy.
 * Returns "" if no call has failed on this thread. Never returns NULL.
 */
const char *mst_error(void);

/* Returns the same as a struct. Never returns NULL. */
const mst_error_info *mst_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
