/*
 * gloo_worker.cpp - the thread of the gloo backend, with a collective of our own in place of Gloo's: what
 * becomes of it when it is stopped and does not end. Says what went wrong, and fails.
 */
#include "worker.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <semaphore>
#include <thread>

namespace muster_gloo {

namespace {

constexpr size_t COUNTS[] = {3, 5};

std::atomic<bool> computes =
    false; /* what the collective does: compute a while, or wait until it is let go */
std::atomic<bool> over = false;
std::atomic<bool> changed = false; /* the operation was not what it had been */
std::binary_semaphore begun(0), let_go(0);

int failures = 0;

void check(bool good, const char *what) {
    if (good) return;
    fprintf(stderr, "%s\n", what);
    failures++;
}

void compute(std::chrono::milliseconds time) {
    auto until = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < until) continue;
}

struct Stage {
    Stage() {
        auto collectives = std::make_unique<Collectives>();
        collectives->rank = 0;
        collectives->ranks = 2;
        worker = std::make_shared<Worker>(std::move(collectives), std::make_shared<Completions>());
        op.kind = MST_KIND_ALL_GATHER;
        op.count = 8;
        op.out_counts = counts;
        job.op = &op;
        over = false;
        worker->add(job);
        begun.acquire();
    }

    std::shared_ptr<Worker> worker;
    size_t counts[2] = {COUNTS[0], COUNTS[1]};
    mst_backend_op op = {};
    Job job;
};

/* Who is left behind in a wait must not look at what its caller has given up, whenever it comes back. */
void test_left_behind() {
    computes = false;
    Stage stage;
    stage.worker->stop(std::chrono::milliseconds(50));
    check(!over, "stop waited for a thread that stands still");
    memset(&stage.op, 0xff, sizeof(stage.op));
    memset(stage.counts, 0xff, sizeof(stage.counts));
    stage.job.op = nullptr;
    let_go.release();
    while (!over) std::this_thread::yield();
    check(!changed, "the thread read an operation that was its caller's again");
    stage.worker->stop();
    check(!stage.job.done, "the thread ended a job that was given up");
}

/* Buffers are the program's again when stop returns: not while somebody still writes to them. */
void test_computing() {
    computes = true;
    Stage stage;
    stage.worker->stop(
        std::chrono::milliseconds(300)); /* other programs may have the processors for some of it */
    check(over, "stop did not wait for a thread that computes");
}

} // namespace

void Collectives::run(const mst_backend_op &op) {
    begun.release();
    if (computes) {
        compute(std::chrono::milliseconds(1200));
    } else {
        let_go.acquire();
    }
    changed =
        op.kind != MST_KIND_ALL_GATHER || op.count != 8 || memcmp(op.out_counts, COUNTS, sizeof(COUNTS));
    over = true;
}

void ActiveBuffers::interrupt() {}

Completions::Completions() : descriptor_(-1) {}
Completions::~Completions() {}
void Completions::add(Job &job, Outcome) {
    job.done = true;
}

Outcome outcome_of_exception() {
    return {};
}

} // namespace muster_gloo

int main() {
    muster_gloo::test_left_behind();
    muster_gloo::test_computing();
    return muster_gloo::failures > 0;
}
