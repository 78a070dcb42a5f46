/*
 * corrupt.c - a library to preload: falsifies data that rank 1 passes to one call or gets from it, so that a
 * program must find a wrong result. The variable CORRUPT names the call.
 */
#include <dlfcn.h>
#include <muster/comm.h>
#include <stdlib.h>
#include <string.h>

/* Inverts a high bit of the first element if this is rank 1 and its call is the one to falsify. */
static void corrupt(const char *name, const void *buf, size_t count, mst_dtype dtype) {
    const char *rank = getenv("RANK"), *corrupted = getenv("CORRUPT");
    if (!rank || !corrupted || strcmp(rank, "1") != 0 || strcmp(corrupted, name) != 0 || count == 0) return;
    ((unsigned char *)(uintptr_t)buf)[mst_dtype_size(dtype) - 1] ^= 0x40;
}

/* Sets next to the library's function of this name. */
#define FIND_NEXT(next, name) memcpy(&(next), &(void *){dlsym(RTLD_NEXT, name)}, sizeof(void *))

mst_status mst_all_reduce_with(void *buf, size_t count, mst_dtype dtype, const mst_call *call) {
    mst_status (*next)(void *, size_t, mst_dtype, const mst_call *);
    FIND_NEXT(next, "mst_all_reduce_with");
    corrupt("all_reduce", buf, count, dtype);
    return next(buf, count, dtype, call);
}

mst_status mst_isend_with(const void *buf, size_t count, mst_dtype dtype, int dst, const mst_call *call) {
    mst_status (*next)(const void *, size_t, mst_dtype, int, const mst_call *);
    FIND_NEXT(next, "mst_isend_with");
    corrupt("isend", buf, count, dtype);
    return next(buf, count, dtype, dst, call);
}

mst_status mst_recv_with(void *buf, size_t count, mst_dtype dtype, int src, const mst_call *call) {
    mst_status (*next)(void *, size_t, mst_dtype, int, const mst_call *);
    FIND_NEXT(next, "mst_recv_with");
    mst_status status = next(buf, count, dtype, src, call);
    corrupt("recv", buf, count, dtype);
    return status;
}

/* Falsifies numbers, not the counts that programs exchange before them. */
mst_status mst_all_to_all_single_with(void *out, const void *in, size_t count, mst_dtype dtype,
                                      const mst_call *call) {
    mst_status (*next)(void *, const void *, size_t, mst_dtype, const mst_call *);
    FIND_NEXT(next, "mst_all_to_all_single_with");
    mst_status status = next(out, in, count, dtype, call);
    corrupt("all_to_all_single", out, dtype == MST_I32, dtype);
    return status;
}
