/*
 * wait.c - waiting for other ranks: first by looking again and again, then by giving the processor away, then asleep.
 *
 *   spin    while an answer is likely to come sooner than a system call would take; with more ranks than processors hardly
 *   yield   for some milliseconds: another rank may need this processor
 *   sleep   until a rank of this host rings the region's wake_fd or its process ends, a connection has something, or a moment
 *           has passed
 */
#include "base/error.h"
#include "comm/comm_internal.h"
#include "comm/wait_reports.h"
#include "engine/module/module.h"
#include "engine/net/net.h"
#include "p2p/p2p.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    LOOK_EVERY = 64, /* turns between looks at the clock */
    YIELD_NS = 2000000,
    /* An engine that cannot wake anybody moves only while it is helped: yields go on for longer, and sleeps are short. */
    HELP_NS = 50000000,
    NAP_NS = 100000,
    /* One that wakes its waiters has threads, which need the processor. */
    WOKEN_NS = 20000,
    SPIN_NS = 10000, /* before the processor is given away, where an engine is waited for */
    SLEEP_MS = 5,
    SLEEP_MOST_MS = 50,
    ASK_NS = 200000000,   /* between questions to the store */
    LONG_NS = 1000000000, /* from then on a wait may be in vain */
};

/* What a sleeper polls for; behind the processes of the ranks come connections, where there are any. */
enum { BELL, CANCEL, DOOR, FIRST_PEER };

/*
 * The operations that are being waited for, one after the other: the first collective and all messages. Begins with NULL,
 * and ends with it.
 */
static struct mst_work *next_active(struct msi_comm *comm, struct mst_work *op) {
    struct msi_list *at = comm->messages.next;
    if (!op && !msi_list_empty(&comm->queue)) return msi_container(comm->queue.next, struct mst_work, node);
    if (op && !op->begin) at = op->node.next;
    return at == &comm->messages ? NULL : msi_container(at, struct mst_work, node);
}

/* Was the process of that rank seen to end? */
static bool has_ended(const struct msi_comm *comm, int rank) {
    return comm->watched && comm->watched[FIRST_PEER + rank].events == 0;
}

/* Has that rank of this host destroyed the group? */
static bool has_left(const struct msi_comm *comm, int rank) {
    int place = comm->places[rank];
    if (!comm->region || place < 0) return false;
    /* From msi_comm_free. */
    return atomic_load_explicit(&comm->region->areas[place].left, memory_order_acquire) != 0;
}

/* Does the operation still need that rank? A message for whoever sends needs the last that is left. */
static bool needs(const struct mst_work *op, int rank) {
    if (op->begin && op->comm->engine) return !op->done;
    if (op->begin && op->comm->net) return !op->done && msi_net_needs(op->comm->net, rank);
    if (op->begin) return !op->done && op->host.needs(&op->host, rank);
    const struct msi_message *m = &op->message;
    int from = m->met ? m->from : m->peer;
    return !op->done && (from == rank || (from < 0 && op->comm->size == 2));
}

/* Rank that is gone and that the operation needs, or one that has left the group, as others do because of it; -1 for none. */
static int lost_peer(struct msi_comm *comm, const struct mst_work *op) {
    int left = -1;
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank || !needs(op, r)) continue;
        if (has_ended(comm, r) || comm->hooks.is_gone(comm->hooks.context, r)) return r;
        if (left < 0 && has_left(comm, r)) left = r;
    }
    return left;
}

/* Whom another rank blames for its failure, and what that one called, if it was something else than the others. */
static const char *show_blamed(struct msi_comm *comm, int rank, uint64_t seq, mst_status status, char *out,
                               size_t size) {
    char what[200];
    const struct msi_slot *slot = &comm->region->areas[rank].slots[seq % MSI_SLOTS];
    if (rank == comm->rank)
        snprintf(out, size, "this rank");
    else
        comm->hooks.show(comm->hooks.context, rank, out, size);
    size_t used = strlen(out);
    if (status == MST_ERR_MISMATCH && msi_shm_region_begun(comm->region, rank, seq))
        snprintf(out + used, size - used, " called %s",
                 msi_call_signature_show(&slot->told, what, sizeof what));
    return out;
}

static void tell_bad_news(struct msi_comm *comm, int rank, uint64_t gave_up) {
    char who[200], what[200], here[200], blamed[400];
    uint64_t seq = gave_up >> 32;
    const struct msi_slot *slot = &comm->region->areas[rank].slots[seq % MSI_SLOTS];
    mst_status status = (mst_status)(gave_up & (MSI_GAVE_UP_MESSAGE - 1));
    bool message = gave_up & MSI_GAVE_UP_MESSAGE;
    int culprit = (int)(gave_up >> 8 & 0xffff) - 1;
    void *context = comm->hooks.context;
    if (culprit < 0 || culprit >= comm->size) culprit = rank;
    int blamed_rank = culprit;
    if (culprit == comm->rank) culprit = rank; /* only the other knows why it blames this one */
    if (status == MST_ERR_PEER_LOST) {
        comm->hooks.refresh(context);
        comm->hooks.say_lost(context, culprit);
    } else {
        const struct mst_work *own = next_active(comm, NULL);
        bool other = blamed_rank != rank && (blamed_rank != comm->rank || status == MST_ERR_MISMATCH);
        msi_fail(status, "look at that rank's own message; the group must be made anew",
                 "%s gave up %s (%s%s%s) while this rank was in %s",
                 comm->hooks.show(context, rank, who, sizeof who),
                 message ? "a message" : msi_call_signature_show(&slot->told, what, sizeof what),
                 mst_status_text(status), other ? ": " : "",
                 other ? show_blamed(comm, blamed_rank, seq, status, blamed, sizeof blamed) : "",
                 own->begin ? msi_call_signature_show(&own->host.told, here, sizeof here) : own->name);
    }
    struct mst_work *op = next_active(comm, NULL);
    msi_comm_fail(comm, op, status, culprit);
    if (comm->failure.status == MST_OK)
        comm->failure = op->failure; /* whatever it was here, the group is over */
}

bool msi_comm_heard(struct msi_comm *comm) {
    if (comm->net || !comm->region) return false;
    for (int r = 0; r < comm->size; r++) {
        /* From msi_comm_fail. */
        uint64_t gave_up = atomic_load_explicit(&comm->region->areas[r].gave_up, memory_order_acquire);
        if (r == comm->rank || gave_up == 0) continue;
        tell_bad_news(comm, r, gave_up);
        return true;
    }
    return false;
}

static bool ran_out(struct msi_comm *comm, struct mst_work *op, int64_t now) {
    int culprit = -1;
    mst_status st = MST_OK;
    if (op->wait.deadline == MSI_NO_DEADLINE) op->wait.deadline = now + (int64_t)op->timeout_ms * 1000000;
    if (now >= op->wait.deadline)
        st = op->begin ? msi_comm_say_stalled(comm, op, &culprit) : msi_comm_say_unmet(comm, op, &culprit);
    else if (msi_wait_cancelled(&op->wait))
        st = msi_fail(MST_ERR_CANCELLED, NULL, "%s: cancelled by the caller", op->name);
    if (st != MST_OK) msi_comm_fail(comm, op, st, culprit);
    return st != MST_OK;
}

static mst_status say_lost(struct msi_comm *comm, int rank) {
    void *context = comm->hooks.context;
    char who[200], group[96];
    if (has_ended(comm, rank) || comm->hooks.is_gone(context, rank) || !has_left(comm, rank))
        return comm->hooks.say_lost(context, rank);
    return msi_fail(MST_ERR_PEER_LOST, "let all ranks be through with a group before one of them destroys it",
                    "%s has destroyed %s", comm->hooks.show(context, rank, who, sizeof who),
                    comm->hooks.show(context, -1, group, sizeof group));
}

/* What a lost rank means for an operation. It may have done its part before it went. */
static bool lost_somebody(struct msi_comm *comm, struct mst_work *op) {
    int lost = lost_peer(comm, op);
    if (lost < 0) return false;
    if (msi_comm_advance(comm) || msi_comm_heard(comm))
        return true; /* who gave up says so before it leaves */
    msi_comm_fail(comm, op, say_lost(comm, lost), lost);
    return true;
}

/* Has a rank whom the operation does not expect anything of called something else? */
static bool overheard(struct msi_comm *comm, struct mst_work *op) {
    int culprit;
    if (!op->begun || !msi_net_overhear(comm->net, op)) return false;
    mst_status st = msi_comm_say(comm, &op->host, &culprit);
    msi_comm_fail(comm, op, st, culprit);
    return true;
}

/*
 * What the store knows that ends a wait: another rank has given up, called something else, or will never come, as it chose another
 * backend for the group or exchanges it now. It is asked without the lock, and the operation may be over when it has answered.
 */
static bool ask_store(struct msi_comm *comm, bool late) {
    struct mst_work *op = next_active(comm, NULL);
    struct msi_waiting at = {.comm = comm->key, .name = op->name};
    if (op->begin && op->begun) {
        at.seq = op->host.seq;
        at.signature = op->host.signature;
        at.told = op->host.told;
    }
    unsigned turn = op->turn;
    int culprit = -1;
    bool locked = msi_comm_let_go(comm);
    /* First who is gone, then who gave up and said so before. Where a store is gone that no rank hosted, the deadline finds it out. */
    comm->hooks.refresh(comm->hooks.context);
    mst_status st = comm->engine ? msi_engine_look(comm, &at, &culprit) : MST_OK;
    if (st == MST_OK && late) {
        st = comm->hooks.look(comm->hooks.context, &at);
        culprit = st == MST_OK ? -1 : msi_comm_rank_of(comm, mst_last_error()->culprit);
    }
    msi_comm_hold(comm, locked);
    if (st == MST_OK) return false;
    if (op != next_active(comm, NULL) || op->turn != turn || (at.seq && op->host.seq != at.seq)) return true;
    msi_comm_fail(comm, op, st, culprit);
    if (comm->failure.status == MST_OK)
        msi_comm_give_up(comm, op); /* whatever it was here, the group is over */
    return true;
}

/* What can end a wait besides what is waited for. True if it has. */
static bool look_around(struct msi_comm *comm, struct msi_idle *idle, int64_t now) {
    for (struct mst_work *op = NULL; (op = next_active(comm, op));)
        if (ran_out(comm, op, now)) return true;
    if (msi_comm_heard(comm)) return true;
    if (!comm->engine) msi_p2p_answer(comm);
    if (now - idle->looked < ASK_NS) return false;
    idle->looked = now;
    if ((comm->net || comm->engine) && !msi_list_empty(&comm->queue)) {
        struct mst_work *op = next_active(comm, NULL);
        if (comm->net && overheard(comm, op)) return true;
        if (comm->net || op->begun) msi_wait_report_post(comm, op, idle->since, now);
    }
    if (!next_active(comm, NULL) || ask_store(comm, now - idle->since > LONG_NS)) return true;
    for (struct mst_work *op = NULL; (op = next_active(comm, op));)
        if (lost_somebody(comm, op)) return true;
    return false;
}

static mst_status watch_peers(struct msi_comm *comm) {
    size_t n = FIRST_PEER + (size_t)comm->size * (comm->net ? 4 : 1) + 1;
    comm->watched = malloc(n * sizeof *comm->watched);
    if (!comm->watched) return msi_fail_memory();
    for (size_t i = 0; i < n; i++) comm->watched[i] = (struct pollfd){-1, POLLIN, 0};
    int own = comm->pids[comm->rank];
    for (int r = 0; r < comm->size; r++)
        if (comm->places[r] >= 0 && comm->pids[r] != own)
            comm->watched[FIRST_PEER + r].fd = (int)syscall(SYS_pidfd_open, comm->pids[r], 0);
    return MST_OK;
}

void msi_comm_stop_watching(struct msi_comm *comm) {
    if (!comm->watched) return;
    for (int r = 0; r < comm->size; r++)
        if (comm->watched[FIRST_PEER + r].fd >= 0) close(comm->watched[FIRST_PEER + r].fd);
    free(comm->watched);
}

/* A process that has ended is not watched any more; the store will say how it ended. */
static bool somebody_ended(struct msi_comm *comm) {
    bool any = false;
    for (int r = 0; r < comm->size; r++) {
        struct pollfd *p = &comm->watched[FIRST_PEER + r];
        if (p->fd < 0 || !p->revents) continue;
        close(p->fd);
        *p = (struct pollfd){-1, 0, 0};
        any = true;
    }
    return any;
}

/* Fills in what may end the sleep of a rank that waits for an operation; returns how many entries there are. */
static nfds_t watch(struct msi_comm *comm, const struct mst_work *op, int wake_fd) {
    struct pollfd *fds = comm->watched;
    int n = FIRST_PEER + comm->size;
    fds[BELL].fd = wake_fd;
    fds[CANCEL].fd = msi_cancel_fd(op->wait.cancel);
    if (comm->engine && comm->engine->traits.poll_fd > 0) fds[DOOR].fd = comm->engine->traits.poll_fd;
    if (!comm->net) return (nfds_t)n;
    fds[DOOR].fd = msi_listener_fd(comm->endpoint->listener);
    n += msi_net_descriptors(comm->net, fds + n);
    n += msi_p2p_descriptors(comm->p2p, fds + n, 2 * comm->size);
    return (nfds_t)n;
}

/* Does its engine move only while somebody asks it to? */
static bool must_help(const struct msi_comm *comm) {
    return comm->engine && comm->engine->traits.poll_fd <= 0;
}

static void sleep_on(struct msi_comm *comm, const struct mst_work *op, int wake_fd, struct msi_idle *idle) {
    nfds_t fds = watch(comm, op, wake_fd);
    int64_t left = msi_ms_until(op->wait.deadline);
    int most = idle->sleep_ms ? idle->sleep_ms : SLEEP_MS;
    struct timespec time = {0, must_help(comm) ? NAP_NS : (left < most ? left : most) * 1000000};
    comm->sleeping = true;
    if (comm->threaded) pthread_mutex_unlock(&comm->lock);
    int n = ppoll(comm->watched, fds, &time, NULL);
    if (comm->threaded) pthread_mutex_lock(&comm->lock);
    comm->sleeping = false;
    if (comm->net) msi_net_awake(comm->net);
    if (n > 0 && somebody_ended(comm)) idle->looked = 0;
    idle->sleep_ms = most * 2 < SLEEP_MOST_MS ? most * 2 : SLEEP_MOST_MS;
}

/*
 * In a barrier that this rank has come to, one who has not come yet; else -1. The last by number: ranks tend to come in order, and
 * then nobody is woken before all are there.
 */
static int awaited(const struct msi_comm *comm, const struct mst_work *op) {
    if (!op || !op->begin || comm->net || !op->host.nothing || op->host.phase != MSI_MOVE) return -1;
    if (!msi_list_empty(&comm->messages)) return -1;
    for (int r = comm->size - 1; r >= 0; r--)
        if (r != comm->rank && !msi_shm_region_begun(comm->region, r, op->host.seq)) return r;
    return -1;
}

/* Whoever says on the region that it sleeps looks once more: others ring only for what they do after that. */
static void sleep_idle(struct msi_comm *comm, struct msi_idle *idle) {
    int wake_fd = -1;
    if (!comm->watched && watch_peers(comm) != MST_OK) return;
    int awaits = comm->region ? awaited(comm, next_active(comm, NULL)) : -1;
    if (comm->region && msi_shm_region_asleep(comm->region, awaits, &wake_fd) != MST_OK) {
        sched_yield();
        return;
    }
    if (comm->region) msi_p2p_answer(comm);
    bool moved = comm->region && msi_comm_advance(comm);
    const struct mst_work *op = moved ? NULL : next_active(comm, NULL);
    if (op) sleep_on(comm, op, wake_fd, idle);
    if (comm->region) msi_shm_region_awake(comm->region);
}

/* Under the lock others must get a chance. */
static void pause_a_little(struct msi_comm *comm, bool yield) {
    if (comm->threaded) pthread_mutex_unlock(&comm->lock);
    if (yield)
        sched_yield();
    else
        msi_relax();
    if (comm->threaded) pthread_mutex_lock(&comm->lock);
}

/* Between two turns there is an engine's progress, which may take long: only the clock tells how long the wait is. */
static void idle_by_clock(struct msi_comm *comm, struct msi_idle *idle, bool may_sleep) {
    int64_t now = msi_now();
    idle->turns++;
    if (idle->since == 0) idle->since = idle->looked = now;
    if (!next_active(comm, NULL) || (now - idle->since > SPIN_NS && look_around(comm, idle, now))) return;
    if (now - idle->since < SPIN_NS && !comm->oversubscribed)
        pause_a_little(comm, false);
    else if (!may_sleep || now - idle->since < (must_help(comm) ? HELP_NS : WOKEN_NS))
        pause_a_little(comm, true);
    else
        sleep_idle(comm, idle);
}

bool msi_comm_is_patient(const struct msi_idle *idle) {
    return idle->since == 0 || msi_now() - idle->since < YIELD_NS;
}

void msi_comm_idle(struct msi_comm *comm, struct msi_idle *idle, bool may_sleep) {
    if (comm->engine) {
        idle_by_clock(comm, idle, may_sleep);
        return;
    }
    if (++idle->turns < msi_comm_spins(comm)) {
        pause_a_little(comm, false);
        return;
    }
    if (idle->turns % LOOK_EVERY && idle->since == 0) {
        pause_a_little(comm, true);
        return;
    }
    int64_t now = msi_now();
    if (idle->since == 0) idle->since = idle->looked = now;
    if (!next_active(comm, NULL) || look_around(comm, idle, now)) return;
    if (!may_sleep || now - idle->since < YIELD_NS)
        pause_a_little(comm, true);
    else
        sleep_idle(comm, idle);
}
