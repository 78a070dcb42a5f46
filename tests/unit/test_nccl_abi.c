/* test_nccl_abi.c - what backends/nccl/abi.h says of NCCL and of the CUDA runtime, against their headers,
 * where there are some. */
#include "backends/nccl/abi.h"
#include "harness.h"

#define SAME_TYPE(a, b) __builtin_types_compatible_p(__typeof__(a), __typeof__(b))

#if defined __has_include && __has_include(<cuda_runtime_api.h>)
#define HAVE_CUDA 1
#include <cuda_runtime_api.h>

static void test_cuda(void **state) {
    (void)state;
    assert_int_equal(MNC_CUDA_OK, cudaSuccess);
    assert_int_equal(MNC_CUDA_NOT_READY, cudaErrorNotReady);
    assert_int_equal(MNC_MEMORY_DEVICE, cudaMemoryTypeDevice);
    assert_int_equal(MNC_MEMORY_MANAGED, cudaMemoryTypeManaged);
    assert_int_equal(MNC_COPY_DEFAULT, cudaMemcpyDefault);
    assert_int_equal(MNC_STREAM_NON_BLOCKING, cudaStreamNonBlocking);
    assert_int_equal(MNC_EVENT_DISABLE_TIMING, cudaEventDisableTiming);
    assert_int_equal(MNC_CAPABILITY_MAJOR, cudaDevAttrComputeCapabilityMajor);
    assert_int_equal(offsetof(struct cudaPointerAttributes, type), 0);
    assert_int_equal(offsetof(struct cudaPointerAttributes, device), sizeof(int));
    assert_true(sizeof(struct cudaPointerAttributes) <=
                32 * sizeof(long)); /* the room that memory.c gives it */
}

/* The functions, which take our types in the place of theirs. */
static void test_cuda_calls(void **state) {
    (void)state;
#define CHECK(result, name, parameters) assert_true(SAME_TYPE(cuda##name, result parameters));
    MNC_CUDA_CALLS(CHECK)
#undef CHECK
}
#endif

#if defined HAVE_CUDA && __has_include(<nccl.h>)
#define HAVE_NCCL 1
#include <nccl.h>

static void test_results(void **state) {
    (void)state;
    assert_int_equal(MNC_SUCCESS, ncclSuccess);
    assert_int_equal(MNC_CUDA_ERROR, ncclUnhandledCudaError);
    assert_int_equal(MNC_SYSTEM_ERROR, ncclSystemError);
    assert_int_equal(MNC_INVALID_ARGUMENT, ncclInvalidArgument);
    assert_int_equal(MNC_INVALID_USAGE, ncclInvalidUsage);
    assert_int_equal(MNC_REMOTE_ERROR, ncclRemoteError);
    assert_int_equal(MNC_IN_PROGRESS, ncclInProgress);
}

static void test_operations(void **state) {
    (void)state;
    assert_int_equal(MNC_SUM, ncclSum);
    assert_int_equal(MNC_PROD, ncclProd);
    assert_int_equal(MNC_MAX, ncclMax);
    assert_int_equal(MNC_MIN, ncclMin);
    assert_int_equal(MNC_AVG, ncclAvg);
    assert_int_equal(MNC_SCALAR_HOST, ncclScalarHostImmediate);
}

static void test_dtypes(void **state) {
    (void)state;
    assert_int_equal(MNC_INT8, ncclInt8);
    assert_int_equal(MNC_UINT8, ncclUint8);
    assert_int_equal(MNC_INT32, ncclInt32);
    assert_int_equal(MNC_UINT32, ncclUint32);
    assert_int_equal(MNC_INT64, ncclInt64);
    assert_int_equal(MNC_UINT64, ncclUint64);
    assert_int_equal(MNC_FLOAT16, ncclFloat16);
    assert_int_equal(MNC_FLOAT32, ncclFloat32);
    assert_int_equal(MNC_FLOAT64, ncclFloat64);
#if NCCL_VERSION_CODE >= 22400
    assert_int_equal(MNC_BFLOAT16, ncclBfloat16);
    assert_int_equal(MNC_FLOAT8E4M3, ncclFloat8e4m3);
    assert_int_equal(MNC_FLOAT8E5M2, ncclFloat8e5m2);
#endif
}

/* Ours is a beginning of theirs. */
static void test_config(void **state) {
    const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
    (void)state;
    assert_int_equal(sizeof(mnc_id), sizeof(ncclUniqueId));
    assert_true(sizeof(mnc_config) <= sizeof(ncclConfig_t));
    assert_int_equal(offsetof(mnc_config, magic), offsetof(ncclConfig_t, magic));
    assert_int_equal(offsetof(mnc_config, version), offsetof(ncclConfig_t, version));
    assert_int_equal(offsetof(mnc_config, blocking), offsetof(ncclConfig_t, blocking));
    assert_int_equal(offsetof(mnc_config, cga_cluster_size), offsetof(ncclConfig_t, cgaClusterSize));
    assert_int_equal(offsetof(mnc_config, min_ctas), offsetof(ncclConfig_t, minCTAs));
    assert_int_equal(offsetof(mnc_config, max_ctas), offsetof(ncclConfig_t, maxCTAs));
    assert_int_equal(offsetof(mnc_config, net_name), offsetof(ncclConfig_t, netName));
    assert_int_equal(offsetof(mnc_config, split_share), offsetof(ncclConfig_t, splitShare));
    assert_int_equal(MNC_CONFIG_MAGIC, theirs.magic);
    assert_int_equal(MNC_UNDEFINED, theirs.blocking);
    assert_int_equal(MNC_CONFIG_VERSION, NCCL_VERSION(2, 18, 1));
}

static void test_nccl_calls(void **state) {
    (void)state;
#define CHECK(result, name, parameters) assert_true(SAME_TYPE(nccl##name, result parameters));
    MNC_NCCL_CALLS(CHECK, ncclUniqueId, ncclConfig_t)
#undef CHECK
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
#ifdef HAVE_CUDA
        cmocka_unit_test(test_cuda),    cmocka_unit_test(test_cuda_calls),
#endif
#ifdef HAVE_NCCL
        cmocka_unit_test(test_results), cmocka_unit_test(test_operations), cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_config),  cmocka_unit_test(test_nccl_calls),
#endif
        {NULL, NULL, NULL, NULL, NULL},
    };
    size_t n = sizeof tests / sizeof *tests - 1;
    return n ? _cmocka_run_group_tests("nccl_abi", tests, n, NULL, NULL) : 77;
}
