/* engine.cpp - dispatches operations to the worker or the messages, and shuts the engine down. */
#include "engine.h"

#include "join.h"
#include "quiet.h"

#include <gloo/common/error.h>
#include <gloo/common/logging.h>
#include <new>
#include <sys/eventfd.h>
#include <system_error>
#include <unistd.h>

namespace muster_gloo {

Completions::Completions() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)) {
    if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

Completions::~Completions() {
    close(descriptor_);
}

void Completions::add(Job &job, Outcome outcome) {
    const uint64_t one = 1;
    job.outcome = std::move(outcome);
    /* The count first: take reads it after it has seen done. */
    if (write(descriptor_, &one, sizeof(one)) < 0) {
        /* a full counter is readable, too */
    }
    job.done.store(true, std::memory_order_release);
}

void Completions::wake() {
    const uint64_t one = 1;
    if (write(descriptor_, &one, sizeof(one)) == sizeof(one)) wakes_++;
}

void Completions::drain() {
    uint64_t one;
    for (int n = wakes_ > 0 ? wakes_.exchange(0) : 0; n > 0; n--) {
        if (read(descriptor_, &one, sizeof(one)) < 0) return;
    }
}

bool Completions::take(Job &job) {
    uint64_t one;
    if (!job.done.load(std::memory_order_acquire)) return false;
    if (read(descriptor_, &one, sizeof(one)) < 0) {
        /* add found the counter full */
    }
    return true;
}

/* Gloo's messages begin with a source line in brackets. */
static std::string without_source_line(const char *what) {
    std::string text = what;
    size_t end = text.find("] ");
    if (!text.empty() && text[0] == '[' && end != std::string::npos) text.erase(0, end + 2);
    return text;
}

Outcome outcome_of_exception() {
    try {
        throw;
    } catch (const gloo::IoException &e) {
        std::string text = without_source_line(e.what());
        bool late = text.rfind("Timed out", 0) == 0 || text.rfind("Connect timeout", 0) == 0;
        return {late ? MST_ERR_TIMEOUT : MST_ERR_PEER_LOST, text};
    } catch (const std::bad_alloc &) {
        return {MST_ERR_MEMORY, "out of memory in Gloo"};
    } catch (const std::system_error &e) {
        return {MST_ERR_SYSTEM, e.what()};
    } catch (const std::exception &e) {
        return {MST_ERR_INTERNAL, without_source_line(e.what())};
    }
}

Engine::Engine(const mst_backend_host &host) : host_(host), completions_(std::make_shared<Completions>()) {
    if (host.ranks > 1) context_ = join(host);
    auto collectives = std::make_unique<Collectives>();
    collectives->context = context_;
    collectives->rank = host.rank;
    collectives->ranks = host.ranks;
    collectives->combine = host.combine;
    worker_ = std::make_shared<Worker>(std::move(collectives), completions_);
    SignalsBlocked blocked;
    messages_ = std::make_unique<Messages>(context_, *completions_, host.rank, host.ranks);
}

Engine::~Engine() {
    if (aborted_) return;
    if (!jobs_.empty()) {
        abort();
        return;
    }
    messages_->finish();
    worker_->stop();
}

void Engine::submit(mst_backend_op &op) {
    Job &job = jobs_[&op];
    job.op = &op;
    op.request = &job;
    if (op.kind != MST_KIND_SEND && op.kind != MST_KIND_RECV) return worker_->add(job);
    NoPipeSignal quiet;
    op.kind == MST_KIND_SEND ? messages_->send(job) : messages_->receive(job);
}

bool Engine::progress(mst_backend_op &op, Outcome &outcome) {
    Job &job = *static_cast<Job *>(op.request);
    completions_->drain();
    if (!completions_->take(job)) return false;
    outcome = std::move(job.outcome);
    if (op.tag == MST_ANY_TAG) op.tag = job.tag;
    op.request = nullptr;
    jobs_.erase(&op);
    return true;
}

bool Engine::find(mst_backend_op &op, Outcome &outcome) {
    completions_->drain();
    return messages_->find(op, outcome);
}

bool Engine::cancel(mst_backend_op &op) {
    if (op.kind != MST_KIND_RECV || !messages_->cancel(*static_cast<Job *>(op.request))) return false;
    op.request = nullptr;
    jobs_.erase(&op);
    return true;
}

void Engine::abort() {
    if (aborted_) return;
    aborted_ = true;
    if (context_) close_connections(*context_);
    messages_->stop();
    worker_->stop();
    jobs_.clear();
}

} // namespace muster_gloo
