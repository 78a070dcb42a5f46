/* fake_cuda.h - the part of the fake CUDA runtime that the fake NCCL uses. */
#ifndef TESTS_FAKE_CUDA_H
#define TESTS_FAKE_CUDA_H

#include "backends/nccl/abi.h"

/* Runs a task on the thread of the stream, after all tasks that were enqueued before. */
void fake_enqueue(mnc_stream stream, void (*run)(void *), void *argument);

#endif
