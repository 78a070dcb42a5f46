/* messages.cpp - matching, and the two threads that wait; messages.h tells the protocol. */
#include "messages.h"

#include "collectives.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

namespace muster_gloo {

namespace {

constexpr size_t SMALL = 4096;      /* bytes that travel in the frame itself */
constexpr int MOST_UNCREDITED = 64; /* small messages that a receiver may have to keep, from each sender */
constexpr int CREDIT_AFTER = 32;
constexpr int PIGEONHOLES = 8;                     /* frames that can arrive while one is looked at */
constexpr auto FAREWELL = std::chrono::seconds(5); /* how long finish waits for frames to go */

/* Slots of Gloo; its collectives use prefixes (the upper 8 bits) of at most 8. */
constexpr uint64_t MAIL_SLOT = uint64_t(0x4d) << 56;
constexpr uint64_t DATA_SLOT = uint64_t(0x44) << 56; /* plus the number of the offer */

enum FrameKind : uint32_t { EAGER, OFFER, TAKEN, REFUSED, CREDIT };

size_t bytes_of(const Job &job) {
    return job.op->count * job.op->element;
}

} // namespace

struct Messages::Frame {
    FrameKind kind;
    int32_t tag = 0;
    uint64_t bytes = 0;  /* of the message; REFUSED: that the receiver has room for; CREDIT: how many */
    uint64_t number = 0; /* of the offer; the sender counts them */
    char payload[SMALL];
};

/* A message that has come, or been offered. */
struct Messages::Arrival {
    int from;
    int tag;
    uint64_t bytes;
    uint64_t number = 0;
    std::vector<char> payload = {}; /* of a small one */
    bool offered = false;
    Job *local = nullptr; /* the send, if this rank sent it to itself */

    bool meets(const mst_backend_op &op) const {
        return op.tag == tag && (op.peer < 0 || op.peer == from);
    }
};

Messages::Messages(std::shared_ptr<gloo::Context> context, Ended &ended, int rank, int ranks)
    : context_(std::move(context)), ended_(ended), rank_(rank), uncredited_(ranks), owed_(ranks) {
    for (int r = 0; r < ranks; r++) {
        if (r != rank) others_.push_back(r);
    }
    if (others_.empty()) return;
    for (int i = 0; i < PIGEONHOLES; i++) {
        auto frame = std::make_unique<Frame>();
        Buffer buffer = context_->createUnboundBuffer(frame.get(), sizeof(Frame));
        mailbox_.push_back({std::move(frame), std::move(buffer)});
    }
    postman_ = std::thread([this] { carry_messages(); });
    try {
        reaper_ = std::thread([this] { reap(); });
    } catch (const std::exception &) {
        end_threads();
        throw;
    }
}

Messages::~Messages() = default;

/* Sends a frame on its way. The mutex is held: frames leave in the order of their operations. */
void Messages::post(int to, std::unique_ptr<Frame> frame, size_t payload) {
    size_t length = offsetof(Frame, payload) + payload;
    Awaited awaited;
    awaited.buffer = context_->createUnboundBuffer(frame.get(), length);
    awaited.frame = std::move(frame);
    awaited.buffer->send(to, MAIL_SLOT, 0, length);
    awaited_.push_back(std::move(awaited));
    changed_.notify_all();
}

/* One that no operation of this rank waits for: who cannot be reached any more does not need it. */
void Messages::try_post(int to, std::unique_ptr<Frame> frame) {
    try {
        post(to, std::move(frame));
    } catch (const std::exception &) {
    }
}

void Messages::send(Job &job) {
    const mst_backend_op &op = *job.op;
    size_t bytes = bytes_of(job);
    std::lock_guard lock(mutex_);
    if (op.peer == rank_) {
        Arrival arrival{.from = rank_, .tag = op.tag, .bytes = bytes, .local = &job};
        arrive(std::move(arrival));
        return;
    }
    if (broken_) {
        ended_.add(job, why_);
        return;
    }
    auto frame = std::make_unique<Frame>();
    frame->tag = op.tag;
    frame->bytes = bytes;
    if (bytes <= SMALL && uncredited_[op.peer] < MOST_UNCREDITED) {
        frame->kind = EAGER;
        if (bytes) memcpy(frame->payload, op.in, bytes);
        post(op.peer, std::move(frame), bytes);
        uncredited_[op.peer]++;
        ended_.add(job);
        return;
    }
    uint64_t number = ++last_number_;
    frame->kind = OFFER;
    frame->number = number;
    Offered offer{&job, context_->createUnboundBuffer(const_cast<void *>(op.in), bytes)};
    post(op.peer, std::move(frame));
    offer.data->send(op.peer, DATA_SLOT + number, 0, bytes);
    offers_.emplace(number, std::move(offer));
}

void Messages::receive(Job &job) {
    std::lock_guard lock(mutex_);
    auto met = std::find_if(arrivals_.begin(), arrivals_.end(),
                            [&](const Arrival &arrival) { return arrival.meets(*job.op); });
    if (met != arrivals_.end()) {
        Arrival arrival = std::move(*met);
        arrivals_.erase(met);
        take(job, arrival);
    } else if (broken_) {
        ended_.add(job, why_);
    } else {
        receives_.push_back(&job);
    }
}

bool Messages::cancel(Job &job) {
    std::lock_guard lock(mutex_);
    return receives_.remove(&job) > 0;
}

void Messages::arrive(Arrival arrival) {
    auto met = std::find_if(receives_.begin(), receives_.end(),
                            [&](const Job *job) { return arrival.meets(*job->op); });
    if (met == receives_.end()) {
        arrivals_.push_back(std::move(arrival));
        return;
    }
    Job *job = *met;
    receives_.erase(met);
    take(*job, arrival);
}

/* A message and a receive have met. */
void Messages::take(Job &job, Arrival &arrival) {
    mst_backend_op &op = *job.op;
    op.sender = arrival.from;
    if (bytes_of(job) != arrival.bytes) {
        refuse(job, arrival);
        return;
    }
    if (arrival.offered) {
        take_data(job, arrival);
        return;
    }
    const void *data = arrival.local ? arrival.local->op->in : arrival.payload.data();
    if (arrival.bytes) memcpy(op.out, data, arrival.bytes);
    ended_.add(job);
    if (arrival.local) {
        ended_.add(*arrival.local);
    } else {
        give_credit(arrival.from);
    }
}

void Messages::take_data(Job &job, const Arrival &arrival) {
    try {
        Awaited awaited;
        awaited.buffer = context_->createUnboundBuffer(job.op->out, arrival.bytes);
        awaited.job = &job;
        awaited.sender = arrival.from;
        awaited.number = arrival.number;
        awaited.buffer->recv(arrival.from, DATA_SLOT + arrival.number, 0, arrival.bytes);
        awaited_.push_back(std::move(awaited));
        changed_.notify_all();
    } catch (const std::exception &) {
        ended_.add(job, outcome_of_exception());
    }
}

void Messages::give_credit(int to) {
    if (++owed_[to] < CREDIT_AFTER) return;
    auto frame = std::make_unique<Frame>();
    frame->kind = CREDIT;
    frame->bytes = owed_[to];
    owed_[to] = 0;
    try_post(to, std::move(frame));
}

static Outcome other_size(int from, int to, uint64_t sent, uint64_t room) {
    return {MST_ERR_MISMATCH, "rank " + std::to_string(from) + " of the group sent " + std::to_string(sent) +
                                  " bytes, and rank " + std::to_string(to) + " receives " +
                                  std::to_string(room)};
}

void Messages::refuse(Job &job, const Arrival &arrival) {
    Outcome outcome = other_size(arrival.from, rank_, arrival.bytes, bytes_of(job));
    if (arrival.local) ended_.add(*arrival.local, outcome);
    if (arrival.offered) {
        auto frame = std::make_unique<Frame>();
        frame->kind = REFUSED;
        frame->number = arrival.number;
        frame->bytes = bytes_of(job);
        try_post(arrival.from, std::move(frame));
    }
    ended_.add(job, std::move(outcome));
}

void Messages::handle(int from, const Frame &frame) {
    if (frame.kind == TAKEN || frame.kind == REFUSED) {
        end_offer(frame);
        return;
    }
    std::lock_guard lock(mutex_);
    if (frame.kind == CREDIT) {
        uncredited_[from] -= static_cast<int>(frame.bytes);
        return;
    }
    Arrival arrival{.from = from, .tag = frame.tag, .bytes = frame.bytes, .number = frame.number};
    arrival.offered = frame.kind == OFFER;
    if (!arrival.offered) {
        arrival.payload.assign(frame.payload, frame.payload + std::min<uint64_t>(frame.bytes, SMALL));
    }
    arrive(std::move(arrival));
}

/* The receiver has the data, or does not want it. */
void Messages::end_offer(const Frame &frame) {
    Offered offer;
    {
        std::lock_guard lock(mutex_);
        auto found = offers_.find(frame.number);
        if (found == offers_.end()) return;
        offer = std::move(found->second);
        offers_.erase(found);
    }
    const mst_backend_op &op = *offer.job->op;
    if (frame.kind == REFUSED) {
        ended_.add(*offer.job, other_size(rank_, op.peer, bytes_of(*offer.job), frame.bytes));
        return;
    }
    offer.data->waitSend(FOREVER); /* all has been received: at most Gloo has not yet noticed it here */
    ended_.add(*offer.job);
}

/* Gloo fills the buffers in the order in which they were given to it, so frames of one sender stay in theirs. */
void Messages::carry_messages() {
    try {
        for (auto &hole : mailbox_) hole.buffer->recv(others_, MAIL_SLOT, 0, sizeof(Frame));
        for (size_t i = 0;; i = (i + 1) % mailbox_.size()) {
            int from = -1;
            if (!mailbox_[i].buffer->waitRecv(&from, FOREVER)) return;
            handle(from, *mailbox_[i].frame);
            mailbox_[i].buffer->recv(others_, MAIL_SLOT, 0, sizeof(Frame));
        }
    } catch (const std::exception &) {
        fail_all(outcome_of_exception());
    }
}

/* The mailbox is broken: nothing more will arrive. */
void Messages::fail_all(const Outcome &outcome) {
    std::lock_guard lock(mutex_);
    broken_ = true;
    why_ = outcome;
    for (Job *job : receives_) ended_.add(*job, outcome);
    for (auto &[number, offer] : offers_) ended_.add(*offer.job, outcome);
    receives_.clear();
    offers_.clear();
}

void Messages::reap() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return ending_ || !awaited_.empty(); });
        if (ending_) return;
        Awaited awaited = std::move(awaited_.front());
        awaited_.pop_front();
        reaping_ = &awaited;
        lock.unlock();
        reap_one(awaited);
        lock.lock();
        reaping_ = nullptr;
        changed_.notify_all();
    }
}

void Messages::reap_one(Awaited &awaited) {
    try {
        if (!awaited.job) {
            awaited.buffer->waitSend(FOREVER);
            return;
        }
        if (!awaited.buffer->waitRecv(FOREVER)) return; /* aborted, and so is the operation */
    } catch (const std::exception &) {
        if (awaited.job) ended_.add(*awaited.job, outcome_of_exception());
        return;
    }
    auto frame = std::make_unique<Frame>();
    frame->kind = TAKEN;
    frame->number = awaited.number;
    std::lock_guard lock(mutex_);
    ended_.add(*awaited.job);
    try_post(awaited.sender, std::move(frame));
}

void Messages::finish() {
    {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, FAREWELL, [&] { return awaited_.empty() && !reaping_; });
    }
    end_threads();
}

void Messages::abort() {
    end_threads();
}

void Messages::end_threads() {
    {
        std::lock_guard lock(mutex_);
        ending_ = true;
        changed_.notify_all();
        if (reaping_) {
            reaping_->buffer->abortWaitRecv();
            reaping_->buffer->abortWaitSend();
        }
        for (auto &hole : mailbox_) hole.buffer->abortWaitRecv();
    }
    if (postman_.joinable()) postman_.join();
    if (reaper_.joinable()) reaper_.join();
    awaited_.clear();
    offers_.clear();
}

} // namespace muster_gloo
