/* operation.cpp - see operation.hpp. */
#include "operation.hpp"

namespace muster_torch {

at::Tensor host_like(const at::Tensor &tensor, at::IntArrayRef shape, Operation *operation) {
    auto options = tensor.options().requires_grad(false);
    if (tensor.is_cpu()) return at::empty(shape, options);
    auto &staging = operation->staging;
    if (!staging) staging = std::make_shared<Staging>(tensor.device());
    TORCH_CHECK(staging->device() == tensor.device(), "[muster] the tensors of a call are on ",
                staging->device(), " and ", tensor.device());
    return at::empty(shape, options.device(at::kCPU).pinned_memory(true)); // copied without waiting
}

static at::Tensor take_place(const at::Tensor &tensor, bool with_values, Operation *operation) {
    at::AutoDispatchBelowADInplaceOrView no_autograd;
    operation->tensors.push_back(tensor);
    if (tensor.is_cpu() && tensor.is_contiguous()) return tensor;
    auto host = host_like(tensor, tensor.sizes(), operation);
    if (with_values) host.copy_(tensor, /*non_blocking=*/true); // Staging::wait_for_inputs waits
    operation->tensors.push_back(host);
    return host;
}

static at::Tensor take_output(const at::Tensor &tensor, bool with_values, Operation *operation) {
    auto host = take_place(tensor, with_values, operation);
    if (!host.is_same(tensor)) operation->copies.emplace_back(tensor, host);
    return host;
}

at::Tensor input(const at::Tensor &tensor, Operation *operation) {
    return take_place(tensor, true, operation);
}

at::Tensor output(const at::Tensor &tensor, Operation *operation) {
    return take_output(tensor, false, operation);
}

at::Tensor in_place(const at::Tensor &tensor, Operation *operation) {
    return take_output(tensor, true, operation);
}

std::vector<at::Tensor> each(TakePlace take_place, const std::vector<at::Tensor> &tensors,
                             Operation *operation) {
    std::vector<at::Tensor> list;
    list.reserve(tensors.size());
    for (const auto &tensor : tensors) list.push_back(take_place(tensor, operation));
    return list;
}

} // namespace muster_torch
