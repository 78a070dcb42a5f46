/* staging.cpp - see staging.hpp. */
#include "staging.hpp"

namespace muster_torch {

void copy_all(const Copies &copies) {
    at::AutoDispatchBelowADInplaceOrView no_autograd; // parameters may be written, too
    for (const auto &[to, from] : copies) at::Tensor(to).copy_(from, /*non_blocking=*/true);
}

Staging::Staging(c10::Device device)
    : impl_(device.type()), device_(device),
      stream_(impl_.getStreamFromGlobalPool(device, /*isHighPriority=*/true)), copied_(device.type()) {}

void Staging::wait_for_inputs() {
    impl_.synchronizeStream(impl_.getStream(device_));
}

void Staging::copy_back(const Copies &copies) {
    c10::StreamGuard guard(stream_);
    for (const auto &copy : copies) // the allocator must not give this memory away before the copy has ended
        if (!copy.first.is_cpu()) impl_.recordDataPtrOnStream(copy.first.storage().data_ptr(), stream_);
    copy_all(copies);
    copied_.record(stream_);
}

void Staging::order() const {
    copied_.block(impl_.getStream(device_));
}

} // namespace muster_torch
