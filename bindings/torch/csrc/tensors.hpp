/* tensors.hpp - PyTorch's tensors, types and reductions as muster's. */
#pragma once

#include <ATen/ATen.h>
#include <muster/muster.h>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

namespace muster_torch {

/* The type of a tensor that is moved: muster's, or opaque elements of that size. */
mst_dtype dtype_of(const at::Tensor &tensor);
/* The type of a tensor that is reduced. Throws if muster cannot reduce it. */
mst_dtype reduced_dtype_of(const at::Tensor &tensor);

/* Sets .op and .factor. */
void set_reduction(const c10d::ReduceOp &op, mst_call *call);

/* Fails unless all tensors are dense. */
void check_tensors(const std::vector<at::Tensor> &tensors, const char *call);

/* The addresses of the tensors' elements. */
std::vector<void *> addresses(const std::vector<at::Tensor> &tensors);

} // namespace muster_torch
