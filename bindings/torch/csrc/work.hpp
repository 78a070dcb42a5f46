/*
 * work.hpp - an operation in progress, as c10d::Work.
 *
 * Any number of threads may wait for it, any number of times. A work that nobody keeps completes by itself:
 * its tensors live until then. The thread that completes it copies results to where they belong, before a
 * wait returns.
 *
 * A wait for an operation on the stream of a device makes the current stream wait; one with a timeout blocks
 * the thread. If the operation fails later, the next call fails.
 */
#pragma once

#include "hooks.hpp"
#include "on_device.hpp"
#include "users.hpp"

#include <muster/muster.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace muster_torch {

/* Milliseconds as muster takes them. */
int to_ms(std::chrono::milliseconds time);

/* What an operation needs until it is done. */
struct Operation {
    std::vector<at::Tensor> tensors;  // in use
    std::vector<at::Tensor> results;  // of the future
    Copies copies;                    // to make after success
    std::shared_ptr<OnDevice> device; // of the tensors on one; NULL: there are none
};

/* Which call a work is. */
struct WorkOrigin {
    int rank;
    c10d::OpType type;
    uint64_t sequence;
    const char *name;
    const std::vector<at::Tensor> *inputs; // whose shapes a profiler records; may be NULL
};

/* What the works of a group share. */
struct GroupState {
    Users users;      // threads in calls on the group
    Users works;      // that have not ended
    Users on_streams; // of these, those on the stream of a device
    Users callbacks;  // in progress, perhaps in Python
    Hooks hooks;
};

class Work final : public c10d::Work {
  public:
    Work(const WorkOrigin &origin, Operation operation, std::shared_ptr<GroupState> group);
    ~Work() override = default;

    /* An operation in progress, which it owns from now on. on_stream: it is on the stream of its device. */
    void begin(mst_work *work, bool on_stream);
    /* The operation was a blocking call, and has succeeded. */
    void complete();
    /* Where a receive from any rank stores the sender. */
    int *sender();

    bool isCompleted() override;
    bool isSuccess() const override;
    std::exception_ptr exception() const override;
    int sourceRank() const override;
    std::vector<at::Tensor> result() override;
    void synchronize() override;
    bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    uint64_t getSequencenumber() const override;
#ifdef MUSTER_TORCH_HAS_COMPLETION_HOOKS
    uint64_t getCompletionKey() const override;
#endif

    struct State;

  private:
    /* title: of the event in a running profiler, else empty. */
    Work(const WorkOrigin &origin, const std::string &title);

    std::shared_ptr<State> state_;
};

} // namespace muster_torch
