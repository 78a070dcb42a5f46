/* messages.cpp - message matching and its two threads. messages.h describes the protocol. */
#include "messages.h"

#include "collectives.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

namespace muster_gloo {

namespace {

constexpr size_t EAGER_MAX = 4096;  /* bytes that fit into a frame */
constexpr int MOST_UNCREDITED = 64; /* eager messages that a receiver may have to store, per sender */
constexpr int CREDIT_AFTER = 32;
constexpr int INBOX_SLOTS = 8;                         /* frames that can arrive while one is handled */
constexpr auto FINISH_LIMIT = std::chrono::seconds(5); /* how long finish waits for sent frames */

/* Gloo slots. Gloo's collectives use prefixes (the upper 8 bits) of at most 8. */
constexpr uint64_t FRAME_SLOT = uint64_t(0x4d) << 56;
constexpr uint64_t DATA_SLOT = uint64_t(0x44) << 56; /* plus the number of the offer */

enum FrameKind : uint32_t { EAGER, OFFER, TAKEN, REFUSED, CREDIT };

size_t bytes_of(const Job &job) {
    return job.op->count * job.op->element;
}

} // namespace

struct Messages::Frame {
    FrameKind kind;
    int32_t tag = 0;
    uint64_t bytes = 0;  /* of the message; REFUSED: of the receive; CREDIT: the number of messages */
    uint64_t number = 0; /* of the offer, unique at the sender */
    char payload[EAGER_MAX];
};

/* A message that has arrived or was offered. */
struct Messages::Unexpected {
    int from;
    int tag;
    uint64_t bytes;
    uint64_t number = 0;
    std::vector<char> payload = {}; /* of an eager message */
    bool offered = false;
    Job *local = nullptr; /* the send of this rank to itself */

    bool matches(const mst_backend_op &op) const {
        return (op.tag == tag || (op.tag == MST_ANY_TAG && tag >= 0)) && (op.peer < 0 || op.peer == from);
    }
};

Messages::Messages(std::shared_ptr<gloo::Context> context, Completions &completions, int rank, int ranks)
    : context_(std::move(context)), completions_(completions), rank_(rank), uncredited_(ranks), owed_(ranks) {
    for (int r = 0; r < ranks; r++) {
        if (r != rank) others_.push_back(r);
    }
    if (others_.empty()) return;
    for (int i = 0; i < INBOX_SLOTS; i++) {
        auto frame = std::make_unique<Frame>();
        Buffer buffer = context_->createUnboundBuffer(frame.get(), sizeof(Frame));
        inbox_.push_back({std::move(frame), std::move(buffer)});
    }
    inbox_thread_ = std::thread([this] { run_inbox(); });
    try {
        completion_thread_ = std::thread([this] { run_completions(); });
    } catch (const std::exception &) {
        stop();
        throw;
    }
}

Messages::~Messages() = default;

/* Sends a frame. Called with the mutex held, so that frames leave in the order of their operations. */
void Messages::post(int to, std::unique_ptr<Frame> frame, size_t payload) {
    size_t length = offsetof(Frame, payload) + payload;
    Transfer transfer;
    transfer.buffer = context_->createUnboundBuffer(frame.get(), length);
    transfer.frame = std::move(frame);
    transfer.buffer->send(to, FRAME_SLOT, 0, length);
    transfers_.push_back(std::move(transfer));
    changed_.notify_all();
}

/* Sends a frame that no operation of this rank waits for. A rank that is unreachable does not need it. */
void Messages::post_best_effort(int to, std::unique_ptr<Frame> frame) {
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
        arrive({.from = rank_, .tag = op.tag, .bytes = bytes, .local = &job});
        return;
    }
    if (broken_) {
        completions_.add(job, why_);
        return;
    }
    auto frame = std::make_unique<Frame>();
    frame->tag = op.tag;
    frame->bytes = bytes;
    if (bytes <= EAGER_MAX && uncredited_[op.peer] < MOST_UNCREDITED) {
        frame->kind = EAGER;
        if (bytes) memcpy(frame->payload, op.in, bytes);
        post(op.peer, std::move(frame), bytes);
        uncredited_[op.peer]++;
        completions_.add(job);
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
    auto found = std::find_if(unexpected_.begin(), unexpected_.end(),
                              [&](const Unexpected &message) { return message.matches(*job.op); });
    if (found != unexpected_.end()) {
        Unexpected message = std::move(*found);
        unexpected_.erase(found);
        match(job, message);
    } else if (broken_) {
        completions_.add(job, why_);
    } else {
        receives_.push_back(&job);
    }
}

bool Messages::cancel(Job &job) {
    std::lock_guard lock(mutex_);
    return receives_.remove(&job) > 0;
}

bool Messages::find(mst_backend_op &op, Outcome &outcome) {
    std::lock_guard lock(mutex_);
    auto found = std::find_if(unexpected_.begin(), unexpected_.end(),
                              [&](const Unexpected &message) { return message.matches(op); });
    awaited_ = found == unexpected_.end();
    if (awaited_ && broken_) outcome = why_;
    if (awaited_) return false;
    op.sender = found->from;
    op.tag = found->tag;
    op.count = found->bytes;
    return true;
}

void Messages::arrive(Unexpected message) {
    auto found = std::find_if(receives_.begin(), receives_.end(),
                              [&](const Job *job) { return message.matches(*job->op); });
    if (found == receives_.end()) {
        unexpected_.push_back(std::move(message));
        if (awaited_) completions_.wake();
        awaited_ = false;
        return;
    }
    Job *job = *found;
    receives_.erase(found);
    match(*job, message);
}

/* Completes or starts a matched message and receive. */
void Messages::match(Job &job, Unexpected &message) {
    mst_backend_op &op = *job.op;
    op.sender = message.from;
    job.tag = message.tag;
    if (bytes_of(job) != message.bytes) {
        refuse(job, message);
        return;
    }
    if (message.offered) {
        receive_data(job, message);
        return;
    }
    const void *data = message.local ? message.local->op->in : message.payload.data();
    if (message.bytes) memcpy(op.out, data, message.bytes);
    completions_.add(job);
    if (message.local) {
        completions_.add(*message.local);
    } else {
        return_credit(message.from);
    }
}

void Messages::receive_data(Job &job, const Unexpected &message) {
    try {
        Transfer transfer;
        transfer.buffer = context_->createUnboundBuffer(job.op->out, message.bytes);
        transfer.job = &job;
        transfer.sender = message.from;
        transfer.number = message.number;
        transfer.buffer->recv(message.from, DATA_SLOT + message.number, 0, message.bytes);
        transfers_.push_back(std::move(transfer));
        changed_.notify_all();
    } catch (const std::exception &) {
        completions_.add(job, outcome_of_exception());
    }
}

void Messages::return_credit(int to) {
    if (++owed_[to] < CREDIT_AFTER) return;
    auto frame = std::make_unique<Frame>();
    frame->kind = CREDIT;
    frame->bytes = owed_[to];
    owed_[to] = 0;
    post_best_effort(to, std::move(frame));
}

static Outcome size_mismatch(int from, int to, uint64_t sent, uint64_t received) {
    return {MST_ERR_MISMATCH, "rank " + std::to_string(from) + " of the group sent " + std::to_string(sent) +
                                  " bytes, but rank " + std::to_string(to) + " receives " +
                                  std::to_string(received)};
}

void Messages::refuse(Job &job, const Unexpected &message) {
    Outcome outcome = size_mismatch(message.from, rank_, message.bytes, bytes_of(job));
    if (message.local) completions_.add(*message.local, outcome);
    if (message.offered) {
        auto frame = std::make_unique<Frame>();
        frame->kind = REFUSED;
        frame->number = message.number;
        frame->bytes = bytes_of(job);
        post_best_effort(message.from, std::move(frame));
    }
    completions_.add(job, std::move(outcome));
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
    Unexpected message{.from = from, .tag = frame.tag, .bytes = frame.bytes, .number = frame.number};
    message.offered = frame.kind == OFFER;
    if (!message.offered) {
        message.payload.assign(frame.payload, frame.payload + std::min<uint64_t>(frame.bytes, EAGER_MAX));
    }
    arrive(std::move(message));
}

/* The receiver has received or refused the data. */
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
        completions_.add(*offer.job, size_mismatch(rank_, op.peer, bytes_of(*offer.job), frame.bytes));
        return;
    }
    offer.data->waitSend(FOREVER); /* returns soon, because the receiver has all data */
    completions_.add(*offer.job);
}

/* Gloo fills the buffers in posting order, so frames of one sender stay in order. */
void Messages::run_inbox() {
    try {
        for (auto &slot : inbox_) slot.buffer->recv(others_, FRAME_SLOT, 0, sizeof(Frame));
        for (size_t i = 0;; i = (i + 1) % inbox_.size()) {
            int from = -1;
            if (!inbox_[i].buffer->waitRecv(&from, FOREVER)) return;
            handle(from, *inbox_[i].frame);
            inbox_[i].buffer->recv(others_, FRAME_SLOT, 0, sizeof(Frame));
        }
    } catch (const std::exception &) {
        fail_all(outcome_of_exception());
    }
}

/* The inbox has failed: no more frames arrive. */
void Messages::fail_all(const Outcome &outcome) {
    std::lock_guard lock(mutex_);
    broken_ = true;
    why_ = outcome;
    for (Job *job : receives_) completions_.add(*job, outcome);
    for (auto &[number, offer] : offers_) completions_.add(*offer.job, outcome);
    receives_.clear();
    offers_.clear();
    if (awaited_) completions_.wake();
    awaited_ = false;
}

void Messages::run_completions() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return stopping_ || !transfers_.empty(); });
        if (stopping_) return;
        Transfer transfer = std::move(transfers_.front());
        transfers_.pop_front();
        completing_ = &transfer;
        lock.unlock();
        complete_one(transfer);
        lock.lock();
        completing_ = nullptr;
        changed_.notify_all();
    }
}

void Messages::complete_one(Transfer &transfer) {
    try {
        if (!transfer.job) {
            transfer.buffer->waitSend(FOREVER);
            return;
        }
        if (!transfer.buffer->waitRecv(FOREVER)) return; /* aborted together with the operation */
    } catch (const std::exception &) {
        if (transfer.job) completions_.add(*transfer.job, outcome_of_exception());
        return;
    }
    auto frame = std::make_unique<Frame>();
    frame->kind = TAKEN;
    frame->number = transfer.number;
    std::lock_guard lock(mutex_);
    completions_.add(*transfer.job);
    post_best_effort(transfer.sender, std::move(frame));
}

void Messages::finish() {
    {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, FINISH_LIMIT, [&] { return transfers_.empty() && !completing_; });
    }
    stop();
}

void Messages::stop() {
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
        changed_.notify_all();
        if (completing_) {
            completing_->buffer->abortWaitRecv();
            completing_->buffer->abortWaitSend();
        }
        for (auto &slot : inbox_) slot.buffer->abortWaitRecv();
    }
    if (inbox_thread_.joinable()) inbox_thread_.join();
    if (completion_thread_.joinable()) completion_thread_.join();
    transfers_.clear();
    offers_.clear();
}

} // namespace muster_gloo
