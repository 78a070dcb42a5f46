/*
 * engine.h - the engine of one group: its connections, its threads and the operations under way.
 *
 * Its functions are called by one thread at a time. They throw what Gloo throws; module.cpp turns that into words.
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
        return ended_->descriptor();
    }

    void submit(mst_backend_op &op);
    /* Is it over? Then outcome says how it went, and the operation is forgotten. */
    bool progress(mst_backend_op &op, Outcome &outcome);
    bool cancel(mst_backend_op &op);
    void abort();

  private:
    const mst_backend_host &host_;
    std::shared_ptr<Ended> ended_;
    std::shared_ptr<gloo::Context> context_;
    std::shared_ptr<Worker> worker_;
    std::unique_ptr<Messages> messages_;
    std::unordered_map<mst_backend_op *, std::unique_ptr<Job>> jobs_;
    bool aborted_ = false;
};

} // namespace muster_gloo
#endif
