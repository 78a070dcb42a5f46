/*
 * device_group.hpp - the group of muster whose backend is nccl, for tensors on a GPU. A process group has it
 * beside the one for host memory.
 *
 * It opens with the first call that can use it, in which all ranks take part. If a rank cannot use nccl, or
 * NCCL refuses the ranks, the tensors of all ranks are staged. MUSTER_TORCH_CUDA, the same on all ranks:
 *
 *   auto    collectives use nccl if all ranks can; messages are staged, which takes only their two ranks
 *   nccl    collectives and messages use nccl; it is an error if a rank cannot
 *   stage   all are staged
 */
#pragma once

#include "on_device.hpp"

#include <atomic>
#include <muster/muster.h>
#include <mutex>
#include <string>

namespace muster_torch {

class DeviceGroup {
  public:
    /* The group of muster whose ranks it has, and that tells them what the others can. */
    struct Host {
        mst_group *world, *group;
        int rank, size;
        std::string name;
        int timeout_ms;
        std::mutex *collectives; // held while one of group is made
    };

    /* How an operation uses tensors on that device. call: for errors, such as "all_reduce". */
    std::shared_ptr<OnDevice> place(const Host &host, c10::Device device, bool message, const char *call);

    /* NULL: the tensors are staged. */
    mst_group *group() const {
        return group_;
    }
    /* Any thread may call these two during a call of another one. */
    void abort(const char *why);
    mst_status set_timeout(int ms);
    void destroy();
    void forget();

  private:
    void open(const Host &host, c10::Device device, const char *call);
    std::string make(const Host &host);
    std::string try_out(const Host &host, c10::Device device);
    std::string agree(const Host &host, const std::string &own, const char *call, bool *must, int *speaker);

    std::atomic<bool> decided_{false}; // what is below does not change any more
    std::mutex lock_;                  // held while group_ changes, and while abort or set_timeout use it
    std::atomic<mst_group *> group_{nullptr};
    std::optional<c10::Stream> stream_; // of collectives
};

} // namespace muster_torch
