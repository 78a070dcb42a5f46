/* tensors.hpp - PyTorch's tensors, types and reductions as muster's. */
#pragma once

#include <ATen/ATen.h>
#include <muster/muster.h>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

namespace muster_torch {

/* The type of a tensor that is reduced. Throws if muster cannot reduce it. */
mst_dtype dtype_of(const at::Tensor &tensor);

/* Elements to move: of a type that muster has, or bytes. */
struct Payload {
    mst_dtype dtype;
    size_t unit; // elements of dtype in an element of the tensor
    size_t count(int64_t elements) const {
        return static_cast<size_t>(elements) * unit;
    }
};
Payload payload_of(const at::Tensor &tensor);

/* Sets .op and .factor. */
void set_reduction(const c10d::ReduceOp &op, mst_call *call);

/* Fails unless all tensors are dense and on the CPU. */
void check_tensors(const std::vector<at::Tensor> &tensors, const char *call);

/* The tensor itself if it is contiguous, else a contiguous one of the same shape. */
at::Tensor flat_input(const at::Tensor &tensor);
at::Tensor flat_output(const at::Tensor &tensor);

/* The addresses of the tensors' elements. */
std::vector<void *> addresses(const std::vector<at::Tensor> &tensors);

} // namespace muster_torch
