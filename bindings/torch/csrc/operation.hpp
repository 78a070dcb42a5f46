/* operation.hpp - the tensors of an operation as muster takes them: contiguous, and where it can use them. */
#pragma once

#include "work.hpp"

namespace muster_torch {

/* Each of these keeps the tensor alive, and returns it or a tensor that takes its place until then. */
at::Tensor input(const at::Tensor &tensor, Operation *operation);
at::Tensor output(const at::Tensor &tensor, Operation *operation);
at::Tensor in_place(const at::Tensor &tensor, Operation *operation);

/* The same for lists. */
using TakePlace = at::Tensor (*)(const at::Tensor &tensor, Operation *operation);
std::vector<at::Tensor> each(TakePlace take_place, const std::vector<at::Tensor> &tensors,
                             Operation *operation);

/* A contiguous tensor without values that muster can use, for a tensor of this type and device. */
at::Tensor buffer_like(const at::Tensor &tensor, at::IntArrayRef shape, Operation *operation);

} // namespace muster_torch
