/* errors.c - turns results of NCCL and CUDA into statuses and messages. An error fails the engine. */
#include "engine.h"

#include <stdio.h>

static mst_status status_of(mnc_result result) {
    switch (result) {
    case MNC_REMOTE_ERROR: /* a connection failed */
    case MNC_SYSTEM_ERROR: /* a socket call failed */
        return MST_ERR_PEER_LOST;
    case MNC_INVALID_ARGUMENT:
    case MNC_INVALID_USAGE:
        return MST_ERR_INVALID;
    default:
        return MST_ERR_SYSTEM;
    }
}

mst_status mnc_fail_nccl(mst_backend_engine *engine, mnc_comm comm, mnc_result result, const char *what) {
    char text[512];
    const char *more = mnc_nccl.GetLastError(comm);
    engine->failed = true;
    snprintf(text, sizeof text, "NCCL: %s: %s%s%s", what, mnc_nccl.GetErrorString(result),
             more && *more ? ": " : "", more ? more : "");
    return engine->host->fail(
        engine->host, status_of(result), -1,
        status_of(result) == MST_ERR_PEER_LOST
            ? "see the message of the rank that failed first; set NCCL_DEBUG=WARN for details"
            : "set NCCL_DEBUG=WARN for details",
        text);
}

mst_status mnc_fail_cuda(mst_backend_engine *engine, mnc_error error, const char *what) {
    char text[256];
    engine->failed = true;
    mnc_cuda.GetLastError(); /* clears it for the program's next call */
    snprintf(text, sizeof text, "CUDA: %s: %s", what, mnc_cuda.GetErrorString(error));
    return engine->host->fail(engine->host, MST_ERR_SYSTEM, -1, NULL, text);
}

mst_status mnc_check_comm(mst_backend_engine *engine, mnc_comm comm, const char *what, bool *busy) {
    mnc_result state = MNC_SUCCESS, result = mnc_nccl.CommGetAsyncError(comm, &state);
    if (result != MNC_SUCCESS) return mnc_fail_nccl(engine, comm, result, what);
    *busy = state == MNC_IN_PROGRESS;
    return *busy || state == MNC_SUCCESS ? MST_OK : mnc_fail_nccl(engine, comm, state, what);
}
