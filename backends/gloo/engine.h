/*
 * engine.h - the engine of one group: its connections, its threads and its operations in progress.
 *
 * One thread at a time calls it. Its functions throw Gloo's exceptions; module.cpp turns them into error
 * messages.
 */
#ifndef MUSTER_GLOO_ENGINE_H
#define MUSTER_GLOO_ENGINE_H

#include "messages.h"
#include "outcome.h"
#include "worker.h"

#include <gloo/context.h>
#include <memory>
#include <muster/backend.h>
#include <unordered_map>

namespace muster_gloo {

class Engine {
  public:
    explicit Engine(const mst_backend_host &host);
    ~Engine();

    const mst_backend_host &host() const {
        return host_;
    }
    int descriptor() const {
        return completions_->descriptor();
    }

    void submit(mst_backend_op &op);
    /* Returns true if the operation has completed: sets outcome and releases the operation. */
    bool progress(mst_backend_op &op, Outcome &outcome);
    bool cancel(mst_backend_op &op);
    bool find(mst_backend_op &op, Outcome &outcome);
    void abort();

  private:
    const mst_backend_host &host_;
    std::shared_ptr<Completions> completions_;
    std::shared_ptr<gloo::Context> context_;
    std::shared_ptr<Worker> worker_;
    std::unique_ptr<Messages> messages_;
    std::unordered_map<mst_backend_op *, Job> jobs_;
    bool aborted_ = false;
};

} // namespace muster_gloo
#endif
