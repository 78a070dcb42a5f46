/*
 * messages.h - send and recv over Gloo.
 *
 * Gloo can wait for a buffer but not poll it, and a wait that times out closes all connections. Gloo does not
 * tell the receiver the size, and aborts the process if a message is larger than the receive. So this module
 * matches messages itself, with small frames that arrive in one inbox per rank:
 *
 *   eager:       sender -- EAGER with the data -------------> receiver, which returns CREDIT for several
 *   rendezvous:  sender -- OFFER ---------------------------> receiver
 *                       -- the data, after the match -------> the program's buffer
 *                       <-- TAKEN, or REFUSED: other size ---
 *
 * Two threads wait. The inbox thread waits for frames. The completion thread waits, in order, for transfers
 * that complete without the program's help: sent frames, and offered data. So no wait depends on the order in
 * which programs send and receive, and none lasts forever unless a rank is stopped or lost.
 */
#ifndef MUSTER_GLOO_MESSAGES_H
#define MUSTER_GLOO_MESSAGES_H

#include "outcome.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

namespace muster_gloo {

using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

class Messages {
  public:
    /* context: NULL in a group of one rank. */
    Messages(std::shared_ptr<gloo::Context> context, Completions &completions, int rank, int ranks);
    ~Messages(); /* after finish or stop */

    void send(Job &job);
    void receive(Job &job);
    /* Cancels a receive without a matching message. */
    bool cancel(Job &job);
    /* Describes the first message that the receive would match in op, if there is one. */
    bool find(mst_backend_op &op, Outcome &outcome);

    /* Waits up to a limit for the sent frames to leave, then stops the threads. */
    void finish();
    /* Stops the threads at once. Close the connections first. */
    void stop();

  private:
    struct Frame;
    struct Unexpected;
    struct InboxSlot {
        std::unique_ptr<Frame> frame;
        Buffer buffer;
    };
    struct Offered {
        Job *job;
        Buffer data;
    };
    /* A transfer of the completion thread: a sent frame, or the data of a receive. */
    struct Transfer {
        Buffer buffer;
        std::unique_ptr<Frame> frame;
        Job *job = nullptr;
        int sender = -1;
        uint64_t number = 0;
    };

    void post(int to, std::unique_ptr<Frame> frame, size_t payload = 0);
    void post_best_effort(int to, std::unique_ptr<Frame> frame);
    void arrive(Unexpected message);
    void match(Job &job, Unexpected &message);
    void receive_data(Job &job, const Unexpected &message);
    void return_credit(int to);
    void refuse(Job &job, const Unexpected &message);
    void handle(int from, const Frame &frame);
    void end_offer(const Frame &frame);
    void fail_all(const Outcome &outcome);
    void run_inbox();
    void run_completions();
    void complete_one(Transfer &transfer);

    std::shared_ptr<gloo::Context> context_;
    Completions &completions_;
    const int rank_;
    std::vector<int> others_;
    std::vector<InboxSlot> inbox_; /* used by the inbox thread */
    std::thread inbox_thread_, completion_thread_;

    std::mutex mutex_; /* protects all below */
    std::condition_variable changed_;
    bool stopping_ = false;
    bool broken_ = false; /* the inbox has failed, see why_ */
    Outcome why_;
    uint64_t last_number_ = 0;
    bool awaited_ = false;             /* find has found nothing, and wants to be called again */
    std::list<Job *> receives_;        /* posted receives without a message, in order */
    std::list<Unexpected> unexpected_; /* messages without a receive, in order */
    std::unordered_map<uint64_t, Offered> offers_;
    std::deque<Transfer> transfers_;
    Transfer *completing_ = nullptr;
    std::vector<int> uncredited_; /* by rank: eager messages sent and not credited */
    std::vector<int> owed_;       /* by rank: eager messages received and not credited */
};

} // namespace muster_gloo
#endif
