/*
 * messages.h - send and recv over Gloo.
 *
 * Gloo can only wait for a buffer, not look whether it is done: a wait that times out closes all connections. It also
 * gives no size to the receiver, and ends the process if more comes than the receiver has room for. So messages are matched
 * here, by small frames that arrive in one mailbox per rank:
 *
 *   small:  sender -- EAGER with the data ------------> receiver, and now and then CREDIT for more of them comes back
 *   large:  sender -- OFFER ---------------------------> receiver
 *                  -- the data, when it was matched ---> the program's buffer
 *                  <-- TAKEN, or REFUSED: other size ---
 *
 * Two threads wait. The postman waits for the mailbox alone. The reaper waits, one after the other, for what ends without the
 * program's help: frames on their way to a mailbox, and data whose sender has offered it. Hence neither waits for ever, unless
 * a rank is stopped or lost, and no wait depends on the order in which programs send and receive.
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
    /* context: NULL in a group of one. */
    Messages(std::shared_ptr<gloo::Context> context, Ended &ended, int rank, int ranks);
    ~Messages(); /* after finish or abort */

    void send(Job &job);
    void receive(Job &job);
    /* Takes back a receive that has not met its message. */
    bool cancel(Job &job);

    /* Waits a while for the frames that are on their way, then ends the threads. */
    void finish();
    /* Ends the threads at once; the connections were closed before. */
    void abort();

  private:
    struct Frame;
    struct Arrival;
    struct Pigeonhole {
        std::unique_ptr<Frame> frame;
        Buffer buffer;
    };
    struct Offered {
        Job *job;
        Buffer data;
    };
    /* What the reaper waits for: a frame to be gone, or the data of a receive to be there. */
    struct Awaited {
        Buffer buffer;
        std::unique_ptr<Frame> frame;
        Job *job = nullptr;
        int sender = -1;
        uint64_t number = 0;
    };

    void post(int to, std::unique_ptr<Frame> frame, size_t payload = 0);
    void try_post(int to, std::unique_ptr<Frame> frame);
    void arrive(Arrival arrival);
    void take(Job &job, Arrival &arrival);
    void take_data(Job &job, const Arrival &arrival);
    void give_credit(int to);
    void refuse(Job &job, const Arrival &arrival);
    void handle(int from, const Frame &frame);
    void end_offer(const Frame &frame);
    void fail_all(const Outcome &outcome);
    void carry_messages();
    void reap();
    void reap_one(Awaited &awaited);
    void end_threads();

    std::shared_ptr<gloo::Context> context_;
    Ended &ended_;
    const int rank_;
    std::vector<int> others_;
    std::vector<Pigeonhole> mailbox_; /* used by the postman */
    std::thread postman_, reaper_;

    std::mutex mutex_; /* of all below */
    std::condition_variable changed_;
    bool ending_ = false;
    bool broken_ = false; /* the mailbox is; why_ says how */
    Outcome why_;
    uint64_t last_number_ = 0;
    std::list<Job *> receives_;   /* that have met no message, in order */
    std::list<Arrival> arrivals_; /* that have met no receive, in order */
    std::unordered_map<uint64_t, Offered> offers_;
    std::deque<Awaited> awaited_;
    Awaited *reaping_ = nullptr;
    std::vector<int> uncredited_; /* by rank: small messages sent there that may not have been received */
    std::vector<int> owed_;       /* by rank: small messages received from there and not credited yet */
};

} // namespace muster_gloo
#endif
