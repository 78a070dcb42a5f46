/*
 * staging.hpp - tensors on a device, which operations reach through host memory, as with gloo.
 *
 * Inputs are copied on the current stream of the thread that calls, which waits for them. Outputs are copied
 * back on a stream of their own, after which a wait for the operation makes the current stream of its thread
 * wait. Only c10's interface of all devices is used, so that the source is the same for a torch without CUDA.
 */
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <vector>

namespace muster_torch {

/* Values to copy: to the first from the second. */
using Copies = std::vector<std::pair<at::Tensor, at::Tensor>>;
void copy_all(const Copies &copies);

class Staging {
  public:
    explicit Staging(c10::Device device);

    c10::Device device() const {
        return device_;
    }
    /* Waits until the inputs are in host memory; from now on the outputs may be written. */
    void wait_for_inputs();
    /* Starts the copies. */
    void copy_back(const Copies &copies);
    /* Makes the current stream of this thread wait for them. */
    void order() const;
    c10::Stream stream() const {
        return stream_;
    }

  private:
    c10::impl::VirtualGuardImpl impl_;
    c10::Device device_;
    c10::Stream stream_;
    c10::Event copied_;
};

} // namespace muster_torch
