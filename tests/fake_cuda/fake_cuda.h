/* fake_cuda.h - what the fake libnccl needs of the fake CUDA runtime: streams are threads that run tasks
 * in order. */
#ifndef TESTS_FAKE_CUDA_H
#define TESTS_FAKE_CUDA_H

#include "backends/nccl/abi.h"

/* Runs it on the stream's thread, behind all that was enqueued before. */
void fake_enqueue(mnc_stream stream, void (*run)(void *), void *argument);

#endif
