/*
 * status.h - what a call can say, and the story behind the last failure.
 *
 * Every fallible call returns mst_status; MST_OK is zero. The scope of a status tells what the caller must
 * rebuild: nothing but the call, the work handle, the group, or the process's whole world.
 */
#ifndef MUSTER_STATUS_H
#define MUSTER_STATUS_H

#include <stdint.h>

/*  X(number, name, scope, text) */
#define MST_STATUS_TABLE(X)                                                                                  \
    X(0, OK, NONE, "success")                                                                                \
    X(1, ERR_INVALID, CALL, "an argument is wrong")                                                          \
    X(2, ERR_STATE, CALL, "not possible in the present state")                                               \
    X(3, ERR_UNSUPPORTED, CALL, "not supported here")                                                        \
    X(4, ERR_NOT_FOUND, CALL, "no such key")                                                                 \
    X(5, ERR_TIMEOUT, CALL, "the deadline passed")                                                           \
    X(6, ERR_CANCELLED, CALL, "cancelled by the caller")                                                     \
    X(7, ERR_MEMORY, CALL, "out of memory")                                                                  \
    X(8, ERR_LIMIT, CALL, "larger than the limit")                                                           \
    X(9, ERR_SYSTEM, CALL, "the operating system refused")                                                   \
    X(10, ERR_CONFIG, PROCESS, "a setting is malformed or missing")                                          \
    X(11, ERR_ADDRESS, CALL, "the address cannot be used")                                                   \
    X(12, ERR_PORT_TAKEN, CALL, "the port is taken")                                                         \
    X(13, ERR_UNREACHABLE, CALL, "nobody answers there")                                                     \
    X(14, ERR_STORE_LOST, PROCESS, "the connection to the store is lost")                                    \
    X(15, ERR_PROTOCOL, CALL, "the other side broke the protocol")                                           \
    X(16, ERR_NOT_MEMBER, CALL, "the caller is not in this group")                                           \
    X(17, ERR_MISSING_RANK, PROCESS, "ranks did not arrive in time")                                         \
    X(18, ERR_DUPLICATE_RANK, PROCESS, "two processes claim one rank")                                       \
    X(19, ERR_WORLD_SIZE, PROCESS, "ranks disagree about the world size")                                    \
    X(20, ERR_VERSION, PROCESS, "ranks run incompatible versions of muster")                                 \
    X(21, ERR_STALE, PROCESS, "remains of an earlier job")                                                   \
    X(22, ERR_PEER_LOST, GROUP, "a rank of the group died or left")                                          \
    X(23, ERR_STALLED, GROUP, "ranks of the group did not take part in time")                                \
    X(24, ERR_INTERNAL, PROCESS, "a fault in muster itself")                                                 \
    X(25, ERR_STORE_ENDED, PROCESS, "the process that hosts the store has closed it")                        \
    X(26, ERR_MISMATCH, GROUP, "ranks of the group called different things")                                 \
    X(27, ERR_CALLBACK, GROUP, "a callback of the program failed")

#ifdef __cplusplus
extern "C" {
#endif

#define MST_STATUS_ENTRY(number, name, scope, text) MST_##name = (number),
typedef enum mst_status { MST_STATUS_TABLE(MST_STATUS_ENTRY) MST_STATUS_COUNT } mst_status;
#undef MST_STATUS_ENTRY

typedef enum mst_scope {
    MST_SCOPE_NONE,    /* nothing failed */
    MST_SCOPE_CALL,    /* only this call; the handle stays usable */
    MST_SCOPE_WORK,    /* this work handle */
    MST_SCOPE_GROUP,   /* this group; others go on */
    MST_SCOPE_PROCESS, /* the world of this process */
} mst_scope;

/* Where a call was made; errors and the profiler show it. */
typedef struct mst_site {
    const char *file;
    const char *function;
    int line;
} mst_site;

/* Name ("MST_ERR_TIMEOUT"), text and scope of a status; a number that is none gives "MST_UNKNOWN". */
const char *mst_status_name(mst_status status);
const char *mst_status_text(mst_status status);
mst_scope mst_status_scope(mst_status status);

/* The parts of the calling thread's last failure. Strings live until the thread's next failing call. */
typedef struct mst_error_info {
    mst_status status;
    int rank;              /* the caller's own rank, -1 before it has one */
    int culprit;           /* the rank to blame, -1 when none is known */
    const char *operation; /* "mst_barrier" */
    uint64_t sequence;     /* how many such operations this group has begun, 0 where not counted */
    mst_site site;         /* file is NULL when the caller recorded none */
    const char *message;   /* what failed */
    const char *remedy;    /* what to do; "" when nothing is known to help */
} mst_error_info;

/*
 * The calling thread's last failure as one line: rank, operation, call site, what failed and what to do.
 * "" if no call failed yet on this thread. Never NULL.
 */
const char *mst_error(void);

/* The same in parts. Never NULL. */
const mst_error_info *mst_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
