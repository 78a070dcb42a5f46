/*
 * backend.hpp - a process group of PyTorch over muster.
 *
 * The default group opens a world; later groups, whose ranks are in it, are groups of that world.
 * Collectives of one backend are made one after the other, on the thread that calls. A call whose options say
 * asyncOp = false blocks there, which saves a wake-up.
 */
#pragma once

#include "device_group.hpp"
#include "work.hpp"

#include <atomic>
#include <c10/util/FunctionRef.h>
#include <muster/muster.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace muster_torch {

struct World;

/* What PyTorch tells about a new process group. */
struct GroupOptions {
    c10::intrusive_ptr<c10d::Store> store;
    int rank, size;
    std::chrono::milliseconds timeout;
    std::string name;
    std::vector<int> global_ranks; // in the order of the group's ranks
    bool is_default;               // the first group, of all ranks
    bool waits;                    // the group opens when it is reconfigured
    bool alone;                    // in a world of its own
    std::shared_ptr<World>
        world; // else it is a group of this one; NULL: of the default group's, if that has its ranks
};

class Backend final : public c10d::Backend {
  public:
    using Tensors = std::vector<at::Tensor>;
    using Result = c10::intrusive_ptr<c10d::Work>;
    using Timeout = std::chrono::milliseconds;

    explicit Backend(const GroupOptions &options);
    ~Backend() override;

    const std::string getBackendName() const override {
        return "muster";
    }

    Result broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) override;
    Result allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) override;
    Result allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options) override;
    Result allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options) override;
    Result reduce(Tensors &tensors, const c10d::ReduceOptions &options) override;
    Result allgather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::AllgatherOptions &) override;
    Result _allgather_base(at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &) override;
    Result allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                               const c10d::AllgatherOptions &options) override;
    Result allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                           const c10d::AllgatherOptions &options) override;
    Result gather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::GatherOptions &) override;
    Result scatter(Tensors &outputs, std::vector<Tensors> &inputs, const c10d::ScatterOptions &) override;
    Result reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                          const c10d::ReduceScatterOptions &options) override;
    Result _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                const c10d::ReduceScatterOptions &options) override;
    Result reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                           const c10d::ReduceScatterOptions &options) override;
    Result alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_splits,
                         std::vector<int64_t> &input_splits, const c10d::AllToAllOptions &) override;
    Result alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options) override;
    Result send(Tensors &tensors, int to, int tag) override;
    Result recv(Tensors &tensors, int from, int tag) override;
    Result recvAnysource(Tensors &tensors, int tag) override;
    Result barrier(const c10d::BarrierOptions &options) override;
    void monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks) override;

    /* A group of some of this group's ranks; NULL for the other ranks. */
    c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store> &store,
                                            const std::vector<int> &ranks,
                                            const c10::intrusive_ptr<Options> &options) override;
    bool supportsSplitting() const override {
        return true;
    }
    /* A group of this process and others, which know this store. */
    c10::intrusive_ptr<c10d::Backend> merge(const c10::intrusive_ptr<c10d::Store> &store,
                                            const c10::intrusive_ptr<Options> &options, const int &rank,
                                            const int &size) override;
    /* A copy: PyTorch changes it for the group that is split from this one. */
    c10::intrusive_ptr<Options> getBackendOptions() override {
        return c10::make_intrusive<Options>(*options_);
    }

    /* A tensor in memory that the other ranks of the host access in place. */
    at::Tensor allocateTensor(long size, at::TensorOptions options) override;
    bool supportsTensorAlloc(c10::DeviceIndex device) override {
        return true;
    }

    /* A group without some of its ranks, which may be alive. */
    c10::intrusive_ptr<c10d::Backend> shrink(const std::vector<int64_t> &excluded, int flags,
                                             const c10::intrusive_ptr<Options> &options) override;
    bool supportsShrinking() const override {
        return true;
    }
#ifdef C10D_BACKEND_HAS_RECONFIGURE
    /* Replaces the group by one of the processes with these handles, which share its store. */
    c10d::ReconfigureHandle get_reconfigure_handle() const override;
    Result reconfigure(const c10d::ReconfigureOptions &options) override;
    bool supportsReconfigure() const override {
        return true;
    }
#endif

    void enableCollectivesTiming() override {} // they are timed while there is a hook
    void registerOnCompletionHook(Hooks::OnCompletion &&hook) override;
    void waitForPendingWorks() override;
#ifdef MUSTER_TORCH_HAS_COMPLETION_HOOKS
    void registerCompletionHook(int64_t id, c10d::CompletionHook hook) override;
    void unregisterCompletionHook(int64_t id) override;
    bool supportsCompletionHooks() const override {
        return true;
    }
#endif

    void setSequenceNumberForGroup() override {}
    uint64_t getSequenceNumberForGroup() override {
        return sequence_;
    }
    void setTimeout(Timeout timeout) override;
    void abort() override;
    void shutdown() override;

  private:
    /* One call of PyTorch. */
    struct Call {
        const char *name;
        c10d::OpType type;
        bool async;
        Timeout timeout;
        const Tensors *inputs; // for the profiler; valid until run() returns
        Operation operation = {};
    };

    /* A call, and how it uses tensors on a device. */
    Call describe(const char *name, c10d::OpType type, bool async, Timeout timeout, const Tensors *inputs);
    /* NULL: the tensor is on the CPU. */
    std::shared_ptr<OnDevice> place(const at::Tensor &tensor, bool message, const char *call);
    mst_call options_for(Timeout timeout) const;
    /* The same for an operation that uses tensors in place. */
    void set_device(const OnDevice &device, mst_call *options) const;
    void check_open(const char *call) const;
    /* post makes the call of muster with these options. */
    Result run(Call call, c10::function_ref<mst_status(mst_call &options)> post);
    void fail_monitored_barrier(mst_status status, Timeout timeout, bool wait_all_ranks) const;
    Result allgather_several(std::vector<Tensors> &output_lists, Tensors &input_list,
                             const c10d::AllgatherOptions &options);
    Result message(const char *name, c10d::OpType type, Tensors &tensors, bool receives, int peer, int tag);
    void renumber();
    void close();

    GroupOptions given_;
    std::string handle_;                         // of this process and group, for reconfigure
    std::shared_ptr<World> world_;               // keeps it open
    std::vector<std::shared_ptr<World>> former_; // of before reconfigure
    c10::intrusive_ptr<Options> options_;
    mst_group *group_ = nullptr; // of the world, or the world itself; NULL: not open
    DeviceGroup devices_;
    std::mutex collectives_;            // held while one is made
    std::shared_ptr<GroupState> state_; // shared with the works
    std::atomic<uint64_t> sequence_{0};
    std::atomic<bool> ended_{false};
    std::atomic<bool> reconfigures_{false};
};

/* The process exits: groups that were not destroyed are left as they are. */
void begin_exit();
bool is_exiting();

/* After begin_exit, keeps another thread from returning to Python, which would end it and so abort the
 * process. The first local variable of a function: what it uses is released before. */
struct EndsHere {
    ~EndsHere();
};

} // namespace muster_torch
