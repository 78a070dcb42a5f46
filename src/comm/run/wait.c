/*
 * wait.c - waiting for other ranks.
 *
 *   spin    while an answer is likely sooner than a system call takes; once only if oversubscribed
 *   yield   for some milliseconds: another rank may need this processor
 *   sleep   until another rank wakes this one, a process ends, a connection is ready, or some ms passed
 *
 * A yield that takes long has given the processor to a thread that computes. The scheduler lets a thread
 * that yields wait for a whole time slice of the other one, but runs a thread that was asleep soon after it
 * is woken. So for a while waits sleep instead of yielding. MUSTER_SPIN_US sets the time before a sleep.
 */
#include "base/error.h"
#include "comm/comm_internal.h"
#include "comm/wait_reports.h"
#include "os/pidfd.h"
#include "os/socket.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOOK_EVERY = 64, /* turns between reads of the clock */
    YIELD_NS = 2000000,
    /* An engine without a descriptor makes progress only while it is called: yields go on for longer, and
     * sleeps are short. */
    HELP_NS = 50000000,
    NAP_NS = 100000,
    LONG_NAP_NS = 1000000, /* if no thread of the program waits */
    /* An engine with a descriptor has threads of its own, which need the processor. */
    WOKEN_NS = 20000,
    SPIN_NS = 10000, /* before the thread yields, if the clock measures the wait */
    /* A yield that takes longer for each rank on the processor has met a thread that computes, … */
    CROWDED_NS = 300000,
    CROWDED_FOR_NS = 20000000, /* … which counts for that long */
    SLEEP_MS = 5,
    SLEEP_MOST_MS = 50,
    ASK_NS = 40000000,       /* before the first question to the store */
    ASK_MOST_NS = 200000000, /* between later ones */
    LONG_NS = 400000000,     /* after that the store is asked whether the other ranks can still arrive */
    TELL_MS = 200,
    /* Among so many ranks, watching the processes takes longer than most waits: only later ones do that. */
    MANY = 32,
    WATCH_NS = 100000000,
};

/* Does the operation still need that rank? */
static bool needs(const struct mst_work *work, int rank) {
    return msi_op_is_message(&work->op) ? msi_comm_peer(work) == rank
                                        : work->comm->engine->waits_for(work, rank);
}

/* Has the rank left in order, and may bytes that the operation needs be on their way? */
static bool may_arrive(const struct mst_work *work, int rank) {
    const struct msi_comm *comm = work->comm;
    return comm->engine->may_arrive && !comm->hooks.has_died(comm->hooks.context, rank) &&
           comm->engine->may_arrive(work, rank);
}

static bool is_lost(const struct mst_work *work, int rank) {
    const struct msi_comm *comm = work->comm;
    return msi_comm_has_ended(comm, rank) ||
           (comm->hooks.is_gone(comm->hooks.context, rank) && !may_arrive(work, rank));
}

/*
 * The rank whose loss ends a receive from any source; -1: none. A rank that has left is not missed while
 * another one can send. A rank that died may have been the sender, unless the program has acknowledged that.
 */
static int lost_sender(struct msi_comm *comm, const struct mst_work *work) {
    void *context = comm->hooks.context;
    int left = 0, last = -1,
        first = comm->hooks.unreported(context); /* others may have ended because of it */
    if (first >= 0 && comm->hooks.has_died(context, first) && !comm->hooks.is_acknowledged(context, first))
        return first;
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank) continue;
        bool ended = comm->waiting.store_lost && msi_comm_has_ended(comm, r) && !msi_comm_has_left(comm, r);
        if ((ended || comm->hooks.has_died(context, r)) && !comm->hooks.is_acknowledged(context, r)) return r;
        if (!is_lost(work, r) && !msi_comm_has_left(comm, r)) continue;
        left++;
        last = r;
    }
    return left == comm->size - 1 ? last : -1;
}

/* A lost rank that the operation needs, or a rank that has left the group because of a lost rank; -1:
 * none. */
static int lost_peer(struct msi_comm *comm, const struct mst_work *work) {
    int left = -1;
    if (work->done) return -1;
    if (msi_op_is_message(&work->op) && msi_comm_peer(work) < 0) return lost_sender(comm, work);
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank || !needs(work, r)) continue;
        if (is_lost(work, r)) return r;
        if (left < 0 && msi_comm_has_left(comm, r)) left = r;
    }
    return left;
}

/* Fails the operation if its deadline has passed or it was cancelled; true if so. */
static bool ran_out(struct msi_comm *comm, struct mst_work *work, int64_t now) {
    int culprit = -1;
    mst_status st = MST_OK;
    if (work->wait.deadline == MSI_NO_DEADLINE)
        work->wait.deadline = now + (int64_t)work->timeout_ms * 1000000;
    if (now >= work->wait.deadline)
        st = msi_op_is_message(&work->op) ? msi_comm_say_unmatched(comm, work, &culprit)
                                          : msi_comm_say_stalled(comm, work, &culprit);
    else if (msi_wait_cancelled(&work->wait))
        st = msi_fail(MST_ERR_CANCELLED, NULL, "%s: cancelled by the caller", work->op.name);
    if (st != MST_OK) msi_comm_fail(comm, work, st, culprit);
    return st != MST_OK;
}

static void check_slow(struct msi_comm *comm, struct mst_work *work, int64_t now) {
    if (!work->awaited) return;
    if (!work->slow.since) work->slow = msi_slow_begin(comm->config.slow_s, now);
    if (now >= work->slow.due) msi_comm_write_slow(comm, work);
}

static mst_status say_sender_died(struct msi_comm *comm, int rank) {
    char who[200];
    msi_fail(MST_ERR_PEER_LOST, "call mst_ack_lost_ranks, then repeat the call to wait for the other ranks",
             "%s died, and might have sent the message", msi_comm_show(comm, rank, who, sizeof who));
    return msi_blame(MST_ERR_PEER_LOST, msi_comm_global(comm, rank));
}

/*
 * Is the store lost with the rank that hosted it? Another lost rank may have ended because of that, unless
 * the ranks announce failures in shared memory. False also if the program knows it.
 */
static bool ended_with_store(struct msi_comm *comm, int lost) {
    void *context = comm->hooks.context;
    int host = comm->hooks.store_host(context);
    if (!comm->traits.uses_store || host < 0 || host == comm->rank) return false;
    if (host != lost && (!comm->waiting.store_lost || comm->hooks.unreported(context) < 0)) return false;
    if (msi_comm_refresh(comm) != MST_ERR_STORE_LOST) return false;
    int cause = comm->hooks.unreported(context); /* also a rank that has hosted the store before */
    return cause >= 0 && (host != lost || cause != host);
}

/*
 * A rank that has left in order has done its part of the calls that it made. A backend does not know which
 * ranks an operation still needs: it gets time until the next look to complete the operation.
 */
static bool may_have_done_its_part(struct mst_work *work, int rank) {
    struct msi_comm *comm = work->comm;
    int one;
    bool known = msi_op_is_message(&work->op) || comm->engine->missing(work, &one, 1) > 0;
    if (known || work->parted || comm->hooks.has_died(comm->hooks.context, rank)) return false;
    work->parted = true;
    return true;
}

/*
 * Has a process of this host ended while the store does not answer? Perhaps because the store is lost, which
 * this rank learns soon, too.
 */
static bool may_have_lost_store(struct msi_comm *comm, int rank) {
    void *context = comm->hooks.context;
    int64_t since = atomic_load_explicit(&comm->waiting.silent_since, memory_order_relaxed);
    bool silent = since && msi_now() - since < (int64_t)msi_socket_timeout() * 1000000000;
    return comm->traits.uses_store && !comm->waiting.store_lost && msi_comm_has_ended(comm, rank) &&
           !comm->hooks.is_gone(context, rank) && (silent || comm->hooks.restore_ms(context) > 0);
}

/* Fails an operation that needs a lost rank, unless that rank did its part before it was lost. */
static bool lost_somebody(struct msi_comm *comm, struct mst_work *work) {
    int lost = lost_peer(comm, work);
    if (lost < 0 || may_have_done_its_part(work, lost) || may_have_lost_store(comm, lost)) return false;
    /* A rank that fails announces it before it leaves. */
    if (msi_comm_advance(comm) || msi_comm_hear_failure(comm)) return true;
    lost = lost_peer(comm, work); /* a connection may have been taken */
    if (lost < 0) return false;
    bool message = msi_op_is_message(&work->op);
    mst_status st =
        ended_with_store(comm, lost) ? msi_comm_say_store_lost(comm) : msi_comm_say_lost(comm, lost, message);
    if (message && msi_comm_peer(work) < 0 && comm->hooks.has_died(comm->hooks.context, lost))
        st = say_sender_died(comm, lost);
    msi_comm_fail(comm, work, st, lost);
    return true;
}

/* Fails an operation whose ranks have not found each other, if the store is lost. Others go on without it. */
static bool lacks_store(struct msi_comm *comm, struct mst_work *work, bool late) {
    bool (*needs_store)(const struct mst_work *) = comm->engine->needs_store;
    if (!late || !comm->waiting.store_lost || !needs_store || !needs_store(work)) return false;
    mst_status st = msi_comm_refresh(comm); /* says why, at once */
    if (st != MST_ERR_STORE_LOST) return false;
    msi_comm_fail(comm, work, msi_comm_say_store_lost(comm), -1);
    return true;
}

/*
 * Has another rank failed the group, or called something else? Only the rank at its other end matters to a
 * message. Ranks that share memory announce failures there; a rank that has not connected cannot.
 */
static mst_status read_reports(struct msi_comm *comm, const struct msi_waiting *at, int peer, int *culprit) {
    if (at->seq && comm->engine->skip) {
        mst_status st = msi_rejection_read(comm, at->seq, &at->signature, culprit);
        if (st != MST_OK) return st;
    }
    bool store = comm->traits.uses_store;
    int by = !store || (!at->seq && peer < 0) ? MSI_ABORTS_ONLY : at->seq ? -1 : peer;
    mst_status st = msi_failure_report_read(comm, by, culprit);
    if (st != MST_OK) return st;
    return store && at->seq ? msi_wait_report_compare(comm, at, culprit) : MST_OK;
}

/* The rank that a message needs, or those that may send it. */
static void list_awaited(const struct mst_work *work, struct msi_waiting *at) {
    struct msi_comm *comm = work->comm;
    int peer = msi_comm_peer(work), first = comm->waiting.turn;
    at->any = peer < 0;
    if (peer >= 0) at->awaited[at->n_awaited++] = peer;
    for (int i = 0; i < comm->size && peer < 0 && at->n_awaited < MSI_AWAITED_MOST; i++) {
        int r = (first + i) % comm->size;
        comm->waiting.turn = r + 1; /* the next question is about others */
        if (r != comm->rank && !comm->hooks.is_gone(comm->hooks.context, r)) at->awaited[at->n_awaited++] = r;
    }
}

/*
 * Asks the store for reasons to end a wait: another rank has failed, has called something else, or will never
 * arrive because it chose another backend for the group. The lock is released meanwhile, so the operation may
 * be over afterwards.
 */
static bool ask_store(struct msi_comm *comm, bool late) {
    struct mst_work *work = msi_comm_next_active(comm, NULL);
    struct msi_waiting at = {.comm = comm->key, .name = work->op.name, .late = late};
    if (!msi_op_is_message(&work->op) && work->begun) {
        at.seq = work->seq;
        at.signature = work->op.signature;
        memcpy(at.recent, comm->recent, sizeof at.recent);
        at.n_awaited = comm->engine->missing(work, at.awaited, MSI_AWAITED_MOST);
    } else if (msi_op_is_message(&work->op)) {
        list_awaited(work, &at);
    }
    unsigned generation = work->generation;
    int culprit = -1, peer = msi_comm_peer(work);
    /* In the first operation ranks may not know how to reach each other. */
    bool first = at.seq == 1 && comm->waiting.connecting;
    msi_comm_unlock(comm);
    /* A rank that fails says so before it leaves: first ask which ranks are lost, then for failures. */
    mst_status st = msi_comm_refresh(comm);
    bool store_lost = st == MST_ERR_STORE_LOST, silent = st == MST_ERR_TIMEOUT;
    if (store_lost && first)
        st = msi_comm_say_store_lost(comm);
    else
        st = silent ? MST_OK : read_reports(comm, &at, peer, &culprit);
    if (st == MST_OK && !silent) {
        st = comm->hooks.look(comm->hooks.context, &at);
        culprit = st == MST_OK ? -1 : msi_comm_rank_of(comm, mst_last_error()->culprit);
    }
    msi_comm_lock(comm);
    comm->waiting.store_lost = store_lost;
    if (st == MST_OK) return false;
    if (work != msi_comm_next_active(comm, NULL) || work->generation != generation ||
        (at.seq && work->seq != at.seq))
        return true;
    msi_comm_fail(comm, work, st, culprit);
    if (comm->failure.status == MST_OK) msi_comm_give_up(comm, work); /* the group has failed elsewhere */
    return true;
}

/* Tells the ranks of other groups for which rank this one waits. */
static void tell_wait(struct msi_comm *comm, struct msi_idle *idle) {
    const struct mst_work *work = msi_comm_next_active(comm, NULL);
    struct msi_wait wait;
    int rank = work ? msi_comm_peer(work) : -1;
    if (!work || (!msi_op_is_message(&work->op) && comm->engine->missing(work, &rank, 1) < 1) || rank < 0)
        return;
    if (!msi_comm_may_ask(comm, TELL_MS, &wait)) return;
    idle->told = true;
    int global = msi_comm_global(comm, rank);
    msi_comm_unlock(comm);
    comm->hooks.waits(comm->hooks.context, global, &wait);
    msi_comm_lock(comm);
}

/* During a long wait for the first operation: looks for a different call of another rank, and reports the
 * wait to the other ranks. True if the wait ends. */
static bool report_wait(struct msi_comm *comm, struct msi_idle *idle, int64_t now) {
    struct mst_work *work = msi_comm_next_active(comm, NULL);
    bool collective = !msi_list_empty(&comm->ops.queue);
    if (!work || (collective && !work->begun)) return false;
    if (collective && comm->engine->overhear && comm->engine->overhear(work)) {
        msi_comm_fail_fault(work);
        return true;
    }
    if (comm->traits.uses_store) msi_wait_report_post(comm, work, idle->since, now);
    if (!idle->told && now - idle->since >= LONG_NS) tell_wait(comm, idle);
    return false;
}

/* No question to the store may take longer than to the first deadline of the operations; 0: no matter. */
static void limit_questions(struct msi_comm *comm, int64_t until) {
    atomic_store_explicit(&comm->waiting.until, until, memory_order_relaxed);
}

static int64_t first_deadline(struct msi_comm *comm) {
    int64_t first = INT64_MAX;
    for (const struct mst_work *work = NULL; (work = msi_comm_next_active(comm, work));)
        if (work->wait.deadline < first) first = work->wait.deadline;
    return first == INT64_MAX ? 0 : first;
}

/*
 * How long after the last question to the store the next one follows. Between hosts the first one is not
 * early: the connection to the store of a host that is cut off would fail before those between the ranks.
 */
static int64_t ask_after(const struct msi_comm *comm, const struct msi_idle *idle) {
    int64_t waited = idle->asked - idle->since;
    if (!comm->ranks.one_host || waited >= ASK_MOST_NS) return ASK_MOST_NS;
    return waited < ASK_NS ? ASK_NS : waited;
}

/* Has another rank of this host failed or begun to recover? Then the store is asked at once. */
static bool is_news(const struct msi_comm *comm, struct msi_idle *idle) {
    uint64_t news = comm->engine->news ? comm->engine->news(comm) : 0, known = idle->news;
    idle->news = news;
    return news && news != known;
}

/* Checks everything else that can end a wait. True if the wait ends. */
static bool check_all(struct msi_comm *comm, struct msi_idle *idle, int64_t now) {
    for (struct mst_work *work = NULL; (work = msi_comm_next_active(comm, work));) {
        if (ran_out(comm, work, now)) return true;
        check_slow(comm, work, now);
    }
    /* A rank that has failed a later operation has done its part of this one. */
    if (msi_comm_advance(comm) || msi_comm_hear_failure(comm)) return true;
    if (comm->engine->accept) comm->engine->accept(comm);
    if (is_news(comm, idle)) idle->asked = 0;
    if (now - idle->asked < ask_after(comm, idle)) return false;
    idle->asked = now;
    if (report_wait(comm, idle, now)) return true;
    bool late = now - idle->since > LONG_NS;
    if (!msi_comm_next_active(comm, NULL) || ask_store(comm, late)) return true;
    for (struct mst_work *work = NULL; (work = msi_comm_next_active(comm, work));)
        if (lost_somebody(comm, work) || lacks_store(comm, work, late)) return true;
    return false;
}

static bool look_around(struct msi_comm *comm, struct msi_idle *idle, int64_t now) {
    limit_questions(comm, first_deadline(comm));
    bool ends = check_all(comm, idle, now);
    limit_questions(comm, 0);
    return ends;
}

static mst_status make_fds(struct msi_comm *comm) {
    size_t n = (size_t)comm->size + 1 + (size_t)comm->traits.max_fds;
    struct pollfd *fds = malloc(n * sizeof *fds);
    if (!fds) return msi_fail_memory();
    for (size_t i = 0; i < n; i++) fds[i] = (struct pollfd){-1, POLLIN, 0};
    comm->waiting.fds = fds;
    return MST_OK;
}

static void watch_peers(struct msi_comm *comm) {
    const int *pids = comm->ranks.pids;
    for (int r = 0; r < comm->size; r++) {
        struct pollfd *p = &comm->waiting.fds[r];
        if (comm->ranks.slots[r] < 0 || pids[r] == pids[comm->rank]) continue;
        p->fd = msi_pidfd_open(pids[r]);
        if (p->fd < 0 && errno == ESRCH) p->events = 0; /* it has ended, see msi_comm_has_ended */
    }
    comm->waiting.watches = true;
}

void msi_comm_stop_watching(struct msi_comm *comm) {
    struct pollfd *fds = comm->waiting.fds;
    if (!fds) return;
    for (int r = 0; r < comm->size; r++)
        if (fds[r].fd >= 0) msi_pidfd_close(fds[r].fd);
    free(fds);
}

/* A process that has ended is not watched any more; the store will say how it ended. */
static bool somebody_ended(struct msi_comm *comm) {
    bool any = false;
    for (int r = 0; r < comm->size; r++) {
        struct pollfd *p = &comm->waiting.fds[r];
        if (p->fd < 0 || !p->revents) continue;
        msi_pidfd_close(p->fd);
        *p = (struct pollfd){-1, 0, 0};
        any = true;
    }
    return any;
}

/* Does the engine make progress only while it is called? */
static bool must_help(const struct msi_comm *comm) {
    return comm->traits.by_clock && !comm->traits.pollable;
}

/* Other threads must get a chance. */
static void pause_a_little(struct msi_comm *comm, bool yield) {
    bool let_go = comm->threaded || yield || msi_lock_is_awaited(&comm->lock);
    int64_t before = yield ? msi_now() : 0, after = 0;
    if (let_go) msi_comm_unlock(comm);
    if (yield) {
        sched_yield();
        after = msi_now();
    } else {
        msi_relax();
    }
    if (let_go) msi_comm_lock(comm);
    if (after - before > (int64_t)CROWDED_NS * comm->ranks.sharing)
        comm->waiting.crowded_until = after + CROWDED_FOR_NS;
}

/* How long a wait yields before it sleeps. */
static int64_t yield_ns(const struct msi_comm *comm, int64_t now) {
    if (comm->config.spin_us) return comm->config.spin_us * 1000;
    return now < comm->waiting.crowded_until ? 0 : YIELD_NS;
}

/* Is everything under way on streams of the program, without a thread that waits for it? */
static bool is_unattended(struct msi_comm *comm) {
    for (const struct mst_work *work = NULL; (work = msi_comm_next_active(comm, work));)
        if (!work->enqueued || work->awaited) return false;
    return true;
}

static int64_t yield_by_clock_ns(struct msi_comm *comm) {
    if (is_unattended(comm)) return 0;
    if (comm->config.spin_us) return comm->config.spin_us * 1000;
    return must_help(comm) ? HELP_NS : WOKEN_NS;
}

static void sleep_on(struct msi_comm *comm, const struct mst_work *work, struct msi_idle *idle) {
    struct pollfd *fds = comm->waiting.fds + comm->size;
    fds->fd = msi_cancel_fd(work->wait.cancel);
    int n = 1 + comm->engine->poll_fds(comm, fds + 1);
    bool watches = comm->size < MANY || msi_now() - idle->since >= WATCH_NS;
    if (watches && !comm->waiting.watches) watch_peers(comm);
    if (watches) {
        fds = comm->waiting.fds;
        n += comm->size;
    }
    int64_t left = msi_ms_until(work->wait.deadline);
    int most = idle->sleep_ms ? idle->sleep_ms : SLEEP_MS;
    int64_t nap = is_unattended(comm) ? LONG_NAP_NS : NAP_NS;
    struct timespec time = {0, must_help(comm) ? nap : (left < most ? left : most) * 1000000};
    comm->waiting.sleeping = true;
    msi_comm_unlock(comm);
    ppoll(fds, (nfds_t)n, &time, NULL);
    msi_comm_lock(comm);
    comm->waiting.sleeping = false;
    if (watches && somebody_ended(comm)) idle->asked = 0;
    idle->sleep_ms = most * 2 < SLEEP_MOST_MS ? most * 2 : SLEEP_MOST_MS;
}

/* After it has announced that it sleeps, this rank checks once more: other ranks wake it only for what they
 * do after that. */
static void sleep_idle(struct msi_comm *comm, struct msi_idle *idle) {
    const struct msi_engine *engine = comm->engine;
    const struct mst_work *work = msi_comm_next_active(comm, NULL);
    if (comm->waiting.sleeping) { /* another thread polls the same descriptors, for the last time */
        pause_a_little(comm, true);
        return;
    }
    if (!comm->waiting.fds && make_fds(comm) != MST_OK) return;
    if (engine->sleep_begin && !engine->sleep_begin(comm, work)) {
        pause_a_little(comm, true);
        return;
    }
    if (engine->sleep_begin && msi_comm_advance(comm))
        work = NULL;
    else
        work = msi_comm_next_active(comm, NULL);
    if (work) sleep_on(comm, work, idle);
    if (engine->sleep_end) engine->sleep_end(comm);
}

static void idle_by_clock(struct msi_comm *comm, struct msi_idle *idle, bool may_sleep) {
    int64_t now = msi_now();
    idle->turns++;
    if (idle->since == 0) idle->since = idle->asked = now;
    if (!msi_comm_next_active(comm, NULL) || (now - idle->since > SPIN_NS && look_around(comm, idle, now)))
        return;
    if (now - idle->since < SPIN_NS && !comm->ranks.oversubscribed)
        pause_a_little(comm, false);
    else if (!may_sleep || now - idle->since < yield_by_clock_ns(comm))
        pause_a_little(comm, true);
    else
        sleep_idle(comm, idle);
}

bool msi_comm_is_patient(const struct msi_comm *comm, const struct msi_idle *idle) {
    if (idle->since == 0) return true;
    int64_t now = msi_now();
    return now - idle->since < yield_ns(comm, now);
}

void msi_comm_idle(struct msi_comm *comm, struct msi_idle *idle, bool may_sleep) {
    if (comm->traits.by_clock) {
        idle_by_clock(comm, idle, may_sleep);
        return;
    }
    if (++idle->turns < msi_comm_spins(comm)) {
        pause_a_little(comm, false);
        return;
    }
    bool crowded = comm->waiting.crowded_until != 0;
    if (!crowded && idle->turns % LOOK_EVERY && idle->since == 0) {
        pause_a_little(comm, true);
        return;
    }
    int64_t now = msi_now();
    if (idle->since == 0) idle->since = idle->asked = now;
    if (!msi_comm_next_active(comm, NULL) || look_around(comm, idle, now)) return;
    if (crowded && now >= comm->waiting.crowded_until) comm->waiting.crowded_until = 0;
    if (!may_sleep || now - idle->since < yield_ns(comm, now))
        pause_a_little(comm, true);
    else
        sleep_idle(comm, idle);
}
