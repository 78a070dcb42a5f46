/* operation.cpp - see operation.hpp. */
#include "operation.hpp"

namespace muster_torch {

/* Of a tensor on a device. */
static bool is_staged(const at::Tensor &tensor, Operation *operation) {
    auto &device = operation->device;
    if (!device) device = std::make_shared<OnDevice>(tensor.device());
    TORCH_CHECK(device->device() == tensor.device(), "[muster] the tensors of a call are on ",
                device->device(), " and ", tensor.device());
    return device->is_staged();
}

at::Tensor buffer_like(const at::Tensor &tensor, at::IntArrayRef shape, Operation *operation) {
    auto options = tensor.options().requires_grad(false);
    if (tensor.is_cpu()) return at::empty(shape, options);
    if (!is_staged(tensor, operation)) return at::empty(shape, options);
    return at::empty(shape, options.device(at::kCPU).pinned_memory(true)); // copied without waiting
}

/* Are the values in memory, one after the other? A lazy conjugate or negative has other ones there. */
static bool is_plain(const at::Tensor &tensor) {
    return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

static at::Tensor take_place(const at::Tensor &tensor, bool with_values, Operation *operation) {
    at::AutoDispatchBelowADInplaceOrView no_autograd;
    operation->tensors.push_back(tensor);
    bool usable = tensor.is_cpu() || !is_staged(tensor, operation);
    if (usable && is_plain(tensor)) return tensor;
    auto buffer = buffer_like(tensor, tensor.sizes(), operation);
    if (with_values) buffer.copy_(tensor, /*non_blocking=*/true); // OnDevice::take_inputs waits
    operation->tensors.push_back(buffer);
    return buffer;
}

static at::Tensor take_output(const at::Tensor &tensor, bool with_values, Operation *operation) {
    auto buffer = take_place(tensor, with_values, operation);
    if (!buffer.is_same(tensor)) operation->copies.emplace_back(tensor, buffer);
    return buffer;
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
