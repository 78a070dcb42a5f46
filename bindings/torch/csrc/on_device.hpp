/*
 * on_device.hpp - the tensors of an operation that are on a device.
 *
 *   staged     they pass through host memory, as with gloo. Inputs are copied on the current stream of the
 *              thread that calls, which waits for them. Outputs are copied back on a stream of their own.
 *   in place   the operation uses them on a stream that waits for the current stream of that thread.
 *
 * A wait for the operation makes the current stream of its thread wait. Only c10's interface of all devices
 * is used, so that the source is the same for a torch without CUDA.
 */
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <optional>
#include <vector>

namespace muster_torch {

/* Values to copy: to the first from the second. */
using Copies = std::vector<std::pair<at::Tensor, at::Tensor>>;
void copy_all(const Copies &copies);

class OnDevice {
  public:
    /* stream: of the operation in place. Without it the tensors are staged. */
    explicit OnDevice(c10::Device device, std::optional<c10::Stream> stream = std::nullopt);

    c10::Device device() const {
        return device_;
    }
    bool is_staged() const {
        return staged_;
    }
    c10::Stream stream() const {
        return stream_;
    }
    /* The inputs are computed: staged, waits until they are in host memory; else lets the stream wait. From
     * now on the outputs may be written. */
    void take_inputs();
    /* Starts the copies, after the operation. */
    void give_outputs(const Copies &copies);
    /* Makes the current stream of this thread wait for them. */
    void order() const;

  private:
    c10::impl::VirtualGuardImpl impl_;
    c10::Device device_;
    bool staged_;
    c10::Stream stream_;
    c10::Event given_;
};

} // namespace muster_torch
