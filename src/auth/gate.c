/*
 * gate.c - see gate.h. An epoll descriptor watches the listening sockets, the slots and a timer. While no
 * slot can be freed for a new connection, the listening sockets are not watched.
 *
 * A member that connects waits behind all connections that came before it. So that their number stays small,
 * those of a suspect address have less time: one of its connections was closed because others waited, and
 * none has authenticated since. If very many wait, they have none.
 */
#include "auth/gate.h"
#include "base/error.h"
#include "base/log.h"
#include "os/clock.h"
#include "os/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
    LISTENERS = 2,
    TIMER = MSI_GATE_SLOTS, /* the number of an event; smaller ones are slots */
    LISTENER,
    EVENTS = MSI_GATE_SLOTS + LISTENERS + 1,
    ACCEPTS = MSI_GATE_SLOTS, /* in a round */
    ROUNDS = 2,               /* then the owner does its other work, also if more connections wait */
    /* Before another connection may take its slot: without a complete hello, with it from a suspect address,
     * and with it. A member sends its hello as soon as it is connected. */
    SILENT_MS = 20,
    SUSPECT_MS = 50,
    PROMPT_MS = 250,
    QUEUE = 1024, /* connections that may wait to be accepted; with more the suspect ones are closed */
    ORIGIN = 16,  /* bytes of an address */
    SUSPECTS = 64,
    SUSPECTED_MS = 1000,
};

struct slot {
    int fd;        /* -1: free */
    bool begun;    /* the handshake; else its first byte is awaited */
    int64_t since; /* on msi_now's clock */
    uint32_t events;
    uint8_t from[ORIGIN];
    struct msi_auth_conn conn;
};

struct suspect {
    uint8_t from[ORIGIN];
    int64_t until; /* on msi_now's clock; 0: free */
};

struct msi_gate {
    struct msi_gate_config config;
    int epoll, timer;
    int listeners[LISTENERS], n_listeners;
    bool paused; /* the listeners are not watched */
    int64_t stall, timer_at;
    uint64_t refused;
    int n; /* slots in use */
    struct slot slots[MSI_GATE_SLOTS];
    struct suspect suspects[SUSPECTS];
};

static struct suspect *find_suspect(struct msi_gate *gate, const uint8_t from[ORIGIN], int64_t now) {
    for (int i = 0; i < SUSPECTS; i++)
        if (gate->suspects[i].until > now && !memcmp(gate->suspects[i].from, from, ORIGIN))
            return &gate->suspects[i];
    return NULL;
}

/* In place of the one that is the first to be forgotten, unless it is known. */
static void suspect(struct msi_gate *gate, const uint8_t from[ORIGIN]) {
    int64_t now = msi_now();
    struct suspect *to = find_suspect(gate, from, now), *first = gate->suspects;
    for (int i = 1; i < SUSPECTS; i++)
        if (gate->suspects[i].until < first->until) first = &gate->suspects[i];
    if (!to) to = first;
    memcpy(to->from, from, ORIGIN);
    to->until = now + SUSPECTED_MS * INT64_C(1000000);
}

static void trust(struct msi_gate *gate, const uint8_t from[ORIGIN]) {
    struct suspect *known = find_suspect(gate, from, msi_now());
    if (known) known->until = 0;
}

static void unwatch(struct msi_gate *gate, struct slot *slot) {
    /* If a forked child has the socket too, closing it does not remove it from the epoll descriptor. */
    epoll_ctl(gate->epoll, EPOLL_CTL_DEL, slot->fd, NULL);
    slot->fd = -1;
    gate->n--;
}

static void refuse(struct msi_gate *gate, struct slot *slot, const char *why) {
    char peer[MSI_ADDRESS_TEXT_MAX];
    int fd = slot->fd;
    gate->refused++;
    msi_log(auth, DEBUG, "refused the connection from %s: %s", msi_socket_peer(fd, peer), why);
    unwatch(gate, slot);
    if (slot->begun) msi_auth_drop(&slot->conn);
    close(fd);
}

static void admit(struct msi_gate *gate, struct slot *slot) {
    enum { CONTEXT_AT = MSI_AUTH_HELLO - MSI_AUTH_CONTEXT_BYTES };
    struct msi_stream stream = slot->begun ? msi_auth_take(&slot->conn) : (struct msi_stream){.fd = slot->fd};
    if (slot->begun) trust(gate, slot->from);
    unwatch(gate, slot);
    gate->config.admit(gate->config.context, stream,
                       slot->begun ? slot->conn.handshake.hello + CONTEXT_AT : NULL);
}

/* A slot that takes too long, or that a newer connection needs. */
static void end_slot(struct msi_gate *gate, struct slot *slot, const char *why) {
    if (gate->config.open && !slot->begun)
        admit(gate, slot); /* the client may be slow to begin */
    else
        refuse(gate, slot, why);
}

/* PyTorch's clients begin with VALIDATE, whose number is 0. */
static void warn_of_torch(const struct msi_gate *gate, const struct slot *slot) {
    char peer[MSI_ADDRESS_TEXT_MAX];
    if (gate->config.role == MSI_ROLE_STORE && slot->conn.handshake.code == MSI_AUTH_MALFORMED &&
        slot->conn.handshake.hello[0] == 0)
        msi_warn_once(
            auth,
            "refused a client of the store at %s that does not authenticate; PyTorch's clients need "
            "an open store (--open-store or MUSTER_STORE_OPEN=1)",
            msi_socket_peer(slot->fd, peer));
}

static void update_events(struct msi_gate *gate, struct slot *slot) {
    uint32_t events = slot->begun ? (uint32_t)msi_auth_events(&slot->conn) : EPOLLIN;
    struct epoll_event event = {.events = events, .data.u32 = (uint32_t)(slot - gate->slots)};
    if (events == slot->events) return;
    slot->events = events;
    epoll_ctl(gate->epoll, EPOLL_CTL_MOD, slot->fd, &event);
}

/* In an open gate: does the connection begin with a handshake? False: it has ended here, or sent nothing. */
static bool look_at_first(struct msi_gate *gate, struct slot *slot) {
    uint8_t first;
    ssize_t n = msi_recv_peek(slot->fd, &first, 1);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (n == 1 && first == MSI_AUTH_FIRST) return true;
    admit(gate, slot); /* also if it has ended */
    return false;
}

static void advance(struct msi_gate *gate, struct slot *slot) {
    if (!slot->begun && gate->config.open && !look_at_first(gate, slot)) return;
    if (!slot->begun) {
        slot->conn.judge = gate->config.judge;
        slot->conn.judge_context = gate->config.context;
        msi_auth_begin(&slot->conn, gate->config.auth, slot->fd, true, gate->config.role, NULL);
        slot->begun = true;
    }
    switch (msi_auth_progress(&slot->conn)) {
    case MSI_AUTH_PENDING:
        update_events(gate, slot);
        break;
    case MSI_AUTH_DONE:
        admit(gate, slot);
        break;
    case MSI_AUTH_REFUSED:
        warn_of_torch(gate, slot);
        refuse(gate, slot,
               slot->conn.handshake.code == MSI_AUTH_TLS_FAILED
                   ? slot->conn.tls_why
                   : msi_auth_code_text(slot->conn.handshake.code));
        break;
    }
}

static int count_from(const struct msi_gate *gate, const uint8_t from[ORIGIN]) {
    int n = 0;
    for (int i = 0; i < MSI_GATE_SLOTS; i++)
        n += gate->slots[i].fd >= 0 && !memcmp(gate->slots[i].from, from, ORIGIN);
    return n;
}

/* Has it proved that it is a member? Then TLS follows. */
static bool is_member(const struct slot *slot) {
    return slot->begun && slot->conn.handshake.state == MSI_AUTH_DONE;
}

/* Is it not authenticated yet? In an open gate, a silent client may be served as it is. */
static bool is_stranger(const struct msi_gate *gate, const struct slot *slot) {
    return slot->fd >= 0 && !is_member(slot) && (slot->begun || !gate->config.open);
}

/* Do so many connections wait to be accepted that the kernel may soon drop those of members? */
static bool is_pressed(const struct msi_gate *gate) {
    for (int i = 0; i < gate->n_listeners; i++) {
        struct tcp_info info = {0};
        socklen_t len = sizeof info;
        /* Of a listening socket, tcpi_unacked is the number of those that wait. */
        if (!getsockopt(gate->listeners[i], IPPROTO_TCP, TCP_INFO, &info, &len) && info.tcpi_unacked > QUEUE)
            return true;
    }
    return false;
}

/* What is known about an address. */
struct origin {
    const uint8_t *from; /* NULL: none yet */
    int slots;
    bool suspect;
};

/* Most slots have the address of the one before when there is a flood. */
static void look_up(struct msi_gate *gate, const uint8_t from[ORIGIN], int64_t now, struct origin *origin) {
    if (origin->from && !memcmp(origin->from, from, ORIGIN)) return;
    *origin = (struct origin){from, count_from(gate, from), find_suspect(gate, from, now) != NULL};
}

/* May another connection take the slot? pressed: many wait. */
static bool may_evict(const struct slot *slot, const struct origin *origin, int64_t now, bool pressed) {
    bool silent = !slot->begun || slot->conn.handshake.out_most == 0;
    int limit = silent ? SILENT_MS : origin->suspect ? SUSPECT_MS : PROMPT_MS;
    return !is_member(slot) &&
           now - slot->since >= (origin->suspect && pressed ? 0 : limit * INT64_C(1000000));
}

/* Of those that may be closed, the oldest of the address that has most slots. */
static struct slot *find_victim(struct msi_gate *gate, bool any) {
    struct slot *found = NULL;
    struct origin origin = {0};
    int most = 0;
    int64_t now = msi_now();
    bool pressed = !any && is_pressed(gate);
    for (int i = 0; i < MSI_GATE_SLOTS; i++) {
        struct slot *slot = &gate->slots[i];
        if (slot->fd < 0) continue;
        look_up(gate, slot->from, now, &origin);
        if (any ? !is_stranger(gate, slot) : !may_evict(slot, &origin, now, pressed)) continue;
        if (found && (origin.slots < most || (origin.slots == most && found->since <= slot->since))) continue;
        found = slot;
        most = origin.slots;
    }
    return found;
}

/* Is there a slot for a further connection? Frees one if it may. */
static bool make_space(struct msi_gate *gate) {
    struct slot *victim = gate->n < MSI_GATE_SLOTS ? NULL : find_victim(gate, false);
    if (victim) {
        suspect(gate, victim->from);
        end_slot(gate, victim, "others wait");
    }
    return gate->n < MSI_GATE_SLOTS;
}

static void watch_listeners(struct msi_gate *gate, bool on) {
    if (gate->paused != on) return;
    for (int i = 0; i < gate->n_listeners; i++) {
        struct epoll_event event = {.events = on ? EPOLLIN : 0, .data.u32 = (uint32_t)(LISTENER + i)};
        epoll_ctl(gate->epoll, EPOLL_CTL_MOD, gate->listeners[i], &event);
    }
    gate->paused = !on;
}

/* The address. Of IPv6, where a host elsewhere may have very many of them, its network. */
static void find_origin(int fd, const struct sockaddr_storage *from, uint8_t out[ORIGIN]) {
    enum { NETWORK = 8 };
    const struct in6_addr *six = &((const struct sockaddr_in6 *)from)->sin6_addr;
    struct msi_socket_end own;
    memset(out, 0, ORIGIN);
    if (from->ss_family == AF_INET)
        memcpy(out, &((const struct sockaddr_in *)from)->sin_addr, sizeof(struct in_addr));
    else if (msi_socket_end(fd, false, &own))
        memcpy(out, six, memcmp(six, own.address, NETWORK) == 0 ? ORIGIN : NETWORK);
}

static void add(struct msi_gate *gate, int fd, const struct sockaddr_storage *from) {
    struct slot *slot = gate->slots;
    while (slot->fd >= 0) slot++; /* make_space has found one */
    *slot = (struct slot){.fd = fd, .since = msi_now(), .events = EPOLLIN};
    find_origin(fd, from, slot->from);
    gate->n++;
    msi_socket_tune(fd);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)(slot - gate->slots)};
    if (epoll_ctl(gate->epoll, EPOLL_CTL_ADD, fd, &event))
        refuse(gate, slot, strerror(errno));
    else
        advance(gate, slot); /* usually the hello has arrived already */
}

/* Frees a descriptor, or asks the owner. accept fails for lack of them also if no connection waits. */
static bool handle_scarcity(struct msi_gate *gate, int listening, int error) {
    struct pollfd waiting = {.fd = listening, .events = POLLIN};
    if (poll(&waiting, 1, 0) == 0) return false;
    struct slot *victim = find_victim(gate, true);
    if (!victim) return gate->config.scarce && gate->config.scarce(gate->config.context, listening, error);
    refuse(gate, victim, "there are too few descriptors");
    return true;
}

/* Accepts up to ACCEPTS connections. Returns false if no more are pending, or there is no space. */
static bool accept_some(struct msi_gate *gate, int listening) {
    for (int i = 0; i < ACCEPTS; i++) {
        struct sockaddr_storage from = {0};
        socklen_t len = sizeof from;
        if (!make_space(gate)) {
            watch_listeners(gate, false);
            return false;
        }
        int fd = accept4(listening, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            add(gate, fd, &from);
            continue;
        }
        int error = errno;
        if (error == EAGAIN) return false;
        bool scarce = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
        if (scarce && !handle_scarcity(gate, listening, error)) return false;
    }
    return true;
}

static bool one_round(struct msi_gate *gate) {
    struct epoll_event events[EVENTS];
    bool pending[LISTENERS] = {false}, more = false;
    int n = epoll_wait(gate->epoll, events, EVENTS, 0);
    /* Existing connections first: accepting may close some that have events here. */
    for (int i = 0; i < n; i++) {
        uint32_t what = events[i].data.u32;
        uint64_t expirations;
        if (what >= LISTENER)
            pending[what - LISTENER] = true;
        else if (what == TIMER)
            gate->timer_at = read(gate->timer, &expirations, sizeof expirations) > 0 ? 0 : gate->timer_at;
        else if (gate->slots[what].fd >= 0)
            advance(gate, &gate->slots[what]);
    }
    for (int i = 0; i < gate->n_listeners; i++)
        if (pending[i] && accept_some(gate, gate->listeners[i])) more = true;
    return more;
}

static void close_stalled(struct msi_gate *gate) {
    int64_t oldest = msi_now() - gate->stall;
    for (int i = 0; gate->n && i < MSI_GATE_SLOTS; i++)
        if (gate->slots[i].fd >= 0 && gate->slots[i].since <= oldest)
            end_slot(gate, &gate->slots[i], "it has not authenticated in time");
}

/* Sets the timer for the next connection that takes too long, or to look for space again. */
static void set_timer(struct msi_gate *gate) {
    int64_t at = INT64_MAX;
    for (int i = 0; gate->n && i < MSI_GATE_SLOTS; i++)
        if (gate->slots[i].fd >= 0 && gate->slots[i].since + gate->stall < at)
            at = gate->slots[i].since + gate->stall;
    if (gate->paused) at = msi_now() + SILENT_MS * INT64_C(1000000);
    if (at == INT64_MAX || (gate->timer_at && gate->timer_at <= at)) return;
    struct itimerspec when = {.it_value = {at / 1000000000, at % 1000000000}};
    timerfd_settime(gate->timer, TFD_TIMER_ABSTIME, &when, NULL);
    gate->timer_at = at;
}

void msi_gate_progress(struct msi_gate *gate) {
    bool paused = gate->paused;
    for (int i = 0; i < ROUNDS && one_round(gate); i++) {
    }
    if (gate->n) close_stalled(gate);
    if (paused && make_space(gate)) watch_listeners(gate, true);
    set_timer(gate);
}

int msi_gate_fd(const struct msi_gate *gate) {
    return gate->epoll;
}

void msi_gate_set_stall(struct msi_gate *gate, int stall_ms) {
    gate->stall = stall_ms * INT64_C(1000000);
    gate->timer_at = 0;
    set_timer(gate);
}

uint64_t msi_gate_refused(const struct msi_gate *gate) {
    return gate->refused;
}

mst_status msi_gate_listen(struct msi_gate *gate, int listening) {
    struct epoll_event event = {.events = gate->paused ? 0 : EPOLLIN,
                                .data.u32 = (uint32_t)(LISTENER + gate->n_listeners)};
    if (gate->n_listeners == LISTENERS || epoll_ctl(gate->epoll, EPOLL_CTL_ADD, listening, &event))
        return msi_fail_errno(errno, "cannot watch the listening socket");
    gate->listeners[gate->n_listeners++] = listening;
    return MST_OK;
}

mst_status msi_gate_open(const struct msi_gate_config *config, struct msi_gate **gate) {
    struct msi_gate *made = calloc(1, sizeof *made);
    if (!made) return msi_fail_memory();
    made->config = *config;
    made->stall = MSI_GATE_STALL_MS * INT64_C(1000000);
    for (int i = 0; i < MSI_GATE_SLOTS; i++) made->slots[i].fd = -1;
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = TIMER};
    made->epoll = epoll_create1(EPOLL_CLOEXEC);
    made->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (made->epoll < 0 || made->timer < 0 || epoll_ctl(made->epoll, EPOLL_CTL_ADD, made->timer, &event)) {
        mst_status st = msi_fail_errno(errno, "cannot watch the connections of a server");
        msi_gate_close(made);
        return st;
    }
    *gate = made;
    return MST_OK;
}

void msi_gate_close(struct msi_gate *gate) {
    if (!gate) return;
    for (int i = 0; i < MSI_GATE_SLOTS; i++)
        if (gate->slots[i].fd >= 0) refuse(gate, &gate->slots[i], "the server ends");
    if (gate->epoll >= 0) close(gate->epoll);
    if (gate->timer >= 0) close(gate->timer);
    free(gate);
}
