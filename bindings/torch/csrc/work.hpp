/*
 * work.hpp - an operation in progress, as c10d::Work.
 *
 * It may cover several works of muster. Any number of threads may wait for it, any number of times. The first
 * that waits makes progress itself (mst_wait); the others sleep until it is done. A work that nobody keeps
 * completes by itself: its tensors live until then.
 */
#pragma once

#include "users.hpp"

#include <condition_variable>
#include <functional>
#include <muster/muster.h>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace muster_torch {

/* Milliseconds as muster takes them. */
int to_ms(std::chrono::milliseconds time);

/* What an operation needs until it is done. */
struct Operation {
    std::vector<at::Tensor> tensors; // in use
    std::vector<at::Tensor> results; // of the future
    std::function<void()> finish;    // after success: copies results to where they belong; may be empty
    std::shared_ptr<void> lists;     // arrays of addresses and counts
};

/* Which call a work is. */
struct WorkOrigin {
    int rank;
    c10d::OpType type;
    uint64_t sequence;
    const char *name;
    const std::vector<at::Tensor> *inputs; // whose shapes a profiler records; may be NULL
};

class Work final : public c10d::Work {
  public:
    Work(const WorkOrigin &origin, Operation operation, std::shared_ptr<Users> users);
    ~Work() override = default;

    /* Operations in progress, which it owns from now on. */
    void begin(std::vector<mst_work *> works);
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

    struct State;

  private:
    /* title: of the event in a running profiler, else empty. */
    Work(const WorkOrigin &origin, const std::string &title);

    std::shared_ptr<State> state_;
    uint64_t sequence_;
};

} // namespace muster_torch
