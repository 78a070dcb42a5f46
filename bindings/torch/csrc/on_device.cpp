/* on_device.cpp - see on_device.hpp. */
#include "on_device.hpp"

namespace muster_torch {

void copy_all(const Copies &copies) {
    at::AutoDispatchBelowADInplaceOrView no_autograd; // parameters may be written, too
    for (const auto &[to, from] : copies) at::Tensor(to).copy_(from, /*non_blocking=*/true);
}

OnDevice::OnDevice(c10::Device device, std::optional<c10::Stream> stream)
    : impl_(device.type()), device_(device), staged_(!stream),
      stream_(stream ? *stream : impl_.getStreamFromGlobalPool(device, /*isHighPriority=*/true)),
      given_(device.type()) {}

void OnDevice::take_inputs() {
    auto current = impl_.getStream(device_);
    if (staged_) return impl_.synchronizeStream(current);
    if (current == stream_) return;
    c10::Event computed(device_.type());
    computed.record(current);
    computed.block(stream_);
}

void OnDevice::give_outputs(const Copies &copies) {
    c10::StreamGuard guard(stream_);
    /* The allocator must not give this memory away before the copies have ended. */
    for (const auto &[to, from] : copies)
        for (const auto *tensor : {&to, &from})
            if (!tensor->is_cpu()) impl_.recordDataPtrOnStream(tensor->storage().data_ptr(), stream_);
    copy_all(copies);
    given_.record(stream_);
}

void OnDevice::order() const {
    given_.block(impl_.getStream(device_));
}

} // namespace muster_torch
