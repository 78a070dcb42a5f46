/* tcp_conn.c - one connection of a store client. See tcp_conn.h. */
#include "store/tcp_conn.h"
#include "base/error.h"
#include "base/log.h"
#include "os/socket.h"
#include "wire/cursor.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_STEP = 16 << 10, PROBE_ROUNDS = 4, PROBE_PAUSE_MS = 60, CANCEL_GRACE_MS = 250 };

/*
 * To a server of dialect A the VALIDATE of a probe and the bytes behind it are the length of a key. This nonce
 * makes it longer than any string can be, three NUM_KEYS, a byte each, longer than any memory: refused at once.
 */
#define PING_NONCE 0xFFFFFFFFu
enum { PADDING = 3 };

static mst_status lost(struct msi_store_conn *link, int error, const char *doing) {
    char where[MSI_ADDRESS_TEXT_MAX];
    link->broken = true;
    return msi_fail(MST_ERR_STORE_LOST,
                    "the process that hosts it ended, or closed this connection for the reason in its log",
                    "the store at %s is gone (%s%s%s)", msi_address_format(&link->target->address, where),
                    doing, error ? ": " : "", error ? strerror(error) : "");
}

/* Sends out. Replies that come meanwhile wait in the socket: a batch of ours is never so long that both sides
 * fill up. */
static mst_status send_all(struct msi_store_conn *link, const struct msi_wait *wait) {
    if (link->out.failed) return msi_fail_memory();
    for (size_t sent = 0; sent < link->out.len;) {
        ssize_t n = send(link->fd, link->out.data + sent, link->out.len - sent, MSG_NOSIGNAL);
        if (n > 0) {
            sent += (size_t)n;
        } else if (errno == EAGAIN) {
            mst_status st = msi_wait_fd(wait, link->fd, POLLOUT, "sending to the store");
            if (st != MST_OK) {
                link->broken = true;
                return st;
            }
        } else if (errno != EINTR) {
            return lost(link, errno, "while sending");
        }
    }
    link->out.len = 0;
    return MST_OK;
}

/* Reads whatever is there, at least a byte. Memory follows what arrives, not what a length claims. */
static mst_status receive(struct msi_store_conn *link, const struct msi_wait *wait) {
    if (!msi_buf_reserve(&link->in, READ_STEP)) return msi_fail_memory();
    for (;;) {
        ssize_t n = recv(link->fd, link->in.data + link->in.len, link->in.cap - link->in.len, 0);
        if (n > 0) {
            link->in.len += (size_t)n;
            return MST_OK;
        }
        if (n == 0) return lost(link, 0, "it closed the connection");
        if (errno == EAGAIN) {
            mst_status st = msi_wait_fd(wait, link->fd, POLLIN, "waiting for the store");
            if (st != MST_OK) return st;
        } else if (errno != EINTR) {
            return lost(link, errno, "while waiting for an answer");
        }
    }
}

/* Reads a reply of that shape and moves it into reply. On an error nothing is taken. */
static mst_status read_reply(struct msi_store_conn *link, const struct msi_wait *wait, const char *signature,
                             uint64_t n_values, struct msi_buf *reply) {
    struct msi_scan scan = {0};
    for (;;) {
        enum msi_scan_result got =
            msi_store_scan(&scan, signature, n_values, &link->target->limits, link->in.data, link->in.len);
        if (got == MSI_SCAN_DONE) break;
        if (got == MSI_SCAN_BAD) {
            link->broken = true;
            return msi_fail(MST_ERR_PROTOCOL, NULL, "the store answered with %s", scan.why);
        }
        mst_status st = receive(link, wait);
        if (st != MST_OK) return st;
    }
    msi_buf_add(reply, link->in.data, scan.at);
    msi_buf_drop(&link->in, scan.at);
    return reply->failed ? msi_fail_memory() : MST_OK;
}

/* A reply of dialect M: its status byte, then the reply of dialect C. */
static mst_status read_own_reply(struct msi_store_conn *link, const struct msi_wait *wait,
                                 struct msi_store_rpc *x) {
    while (link->in.len == 0) {
        mst_status st = receive(link, wait);
        if (st != MST_OK) return st;
    }
    uint8_t status = link->in.data[0];
    if (status >= MST_STATUS_COUNT) {
        link->broken = true;
        return msi_fail(MST_ERR_PROTOCOL, NULL, "the store answered with status %d", status);
    }
    if (status != MST_OK) {
        msi_buf_drop(&link->in, 1);
        x->status = status;
        if (status == MST_ERR_STORE_ENDED) {
            link->broken = true;
            char where[MSI_ADDRESS_TEXT_MAX];
            return msi_fail(MST_ERR_STORE_ENDED, "see why its host closed it, and open it anew",
                            "the process that hosts the store at %s has closed it",
                            msi_address_format(&link->target->address, where));
        }
        return status == MST_ERR_PEER_LOST ? status : MST_OK;
    }
    char signature[4] = "c";
    strcpy(signature + 1, msi_ops[x->req.op].reply);
    mst_status st = read_reply(link, wait, signature, x->req.n, &x->reply);
    if (st == MST_OK) msi_buf_drop(&x->reply, 1);
    return st;
}

static mst_status read_one(struct msi_store_conn *link, const struct msi_wait *wait,
                           struct msi_store_rpc *x) {
    x->status = MST_OK;
    if (link->dialect == MSI_DIALECT_M) return read_own_reply(link, wait, x);
    return read_reply(link, wait, msi_ops[x->req.op].reply, x->req.n, &x->reply);
}

/*
 * A request that waits was not answered in time: it is called off, so that the connection stays in step. Its
 * answer may cross the cancel, and then it counts.
 */
static mst_status call_off(struct msi_store_conn *link, const struct msi_wait *grace, mst_status why,
                           struct msi_store_rpc *x) {
    struct msi_store_req cancel = {.op = MSI_OP_CANCEL_WAIT};
    if (!msi_store_encode(&link->out, link->dialect, &cancel)) {
        link->broken = true; /* dialect A cannot call off */
        return why;
    }
    mst_status st = send_all(link, grace);
    if (st == MST_OK) st = read_one(link, grace, x);
    bool answered = st == MST_OK && x->status == MST_OK;
    if (st == MST_OK && link->dialect == MSI_DIALECT_C) {
        answered = x->reply.data[0] == 0;
        struct msi_store_rpc second = {.req = cancel};
        if (answered) st = read_one(link, grace, &second);
        msi_buf_free(&second.reply);
    }
    if (st != MST_OK && st != MST_ERR_PEER_LOST) link->broken = true;
    if (answered || st == MST_ERR_PEER_LOST) return st;
    msi_buf_free(&x->reply);
    return why;
}

/* The caller's time is up with n requests unanswered: takes their answers all the same, to stay in step. */
static mst_status catch_up(struct msi_store_conn *link, mst_status why, struct msi_store_rpc *x, size_t n) {
    struct msi_wait grace = {msi_deadline(CANCEL_GRACE_MS), NULL};
    mst_status st = why == MST_ERR_TIMEOUT && !msi_ops[x[n - 1].req.op].waits ? why : MST_OK;
    for (size_t i = 0; i < n && st == MST_OK && !link->broken; i++) {
        if (msi_ops[x[i].req.op].waits) return call_off(link, &grace, why, &x[i]);
        st = read_one(link, &grace, &x[i]);
    }
    if (st != MST_OK) link->broken = true;
    return why;
}

/* Puts what goes before the first request into out; true if an answer to it will come. */
static bool greet(struct msi_store_conn *link) {
    _Atomic int64_t *identity = &link->target->identity; /* nothing else is ordered by it */
    struct msi_store_req validate = {.op = MSI_OP_VALIDATE, .number = MSI_STORE_MAGIC};
    struct msi_store_req hello = {.op = MSI_OP_HELLO,
                                  .number = atomic_load_explicit(identity, memory_order_relaxed)};
    enum msi_greeting greeting = link->greeting;
    link->greeting = MSI_GREET_NONE;
    if (greeting == MSI_GREET_ALL && link->dialect != MSI_DIALECT_A)
        msi_store_encode(&link->out, MSI_DIALECT_C, &validate);
    if (greeting == MSI_GREET_NONE || link->dialect != MSI_DIALECT_M) return false;
    msi_store_encode(&link->out, MSI_DIALECT_C, &hello);
    return true;
}

/* All connections of a client lead to the server that answered first, not to a later one at its address. */
static mst_status read_hello(struct msi_store_conn *link, const struct msi_wait *wait) {
    struct msi_store_rpc hello = {.req = {.op = MSI_OP_HELLO}};
    int64_t unknown = 0;
    mst_status st = read_one(link, wait, &hello);
    struct msi_reader r = msi_reader(hello.reply.data, hello.reply.len);
    int64_t identity = (int64_t)msi_read_u64(&r);
    msi_buf_free(&hello.reply);
    if (st != MST_OK) return st;
    bool first = atomic_compare_exchange_strong_explicit(&link->target->identity, &unknown, identity,
                                                         memory_order_relaxed, memory_order_relaxed);
    return first || unknown == identity ? MST_OK : lost(link, 0, "another one is in its place");
}

mst_status msi_store_conn_run(struct msi_store_conn *link, const struct msi_wait *wait,
                              struct msi_store_rpc *x, size_t n) {
    enum msi_greeting greeting = link->greeting;
    bool greeted = greet(link);
    for (size_t i = 0; i < n; i++)
        if (!msi_store_encode(&link->out, link->dialect, &x[i].req)) {
            link->out.len = 0;
            link->greeting = greeting;
            return msi_fail(MST_ERR_UNSUPPORTED, NULL, "this store's server does not know %s",
                            msi_ops[x[i].req.op].name);
        }
    mst_status st = send_all(link, wait);
    if (st == MST_OK && greeted) st = read_hello(link, wait);
    if (st != MST_OK) link->broken = true;
    for (size_t i = 0; i < n && st == MST_OK; i++) {
        st = read_one(link, wait, &x[i]);
        if (st == MST_ERR_TIMEOUT || st == MST_ERR_CANCELLED) {
            st = catch_up(link, st, x + i, n - i);
            return st == MST_ERR_TIMEOUT || st == MST_ERR_CANCELLED
                       ? msi_fail(st, NULL, "%s", mst_status_text(st))
                       : st;
        }
    }
    if (st != MST_OK && st != MST_ERR_PEER_LOST) link->broken = true;
    return st;
}

/*
 * Asks the server in that dialect. MST_OK: the link's dialect is known now. MST_ERR_STORE_LOST: it hung up.
 * MST_ERR_STATE: it is one of ours, to be asked again from the start.
 */
static mst_status probe(struct msi_store_conn *link, const struct msi_wait *wait, enum msi_dialect dialect,
                        bool ping) {
    struct msi_str mark = msi_cstr(MSI_STORE_MARK_KEY);
    struct msi_store_rpc x[2 + PADDING] = {{.req = {.op = MSI_OP_VALIDATE, .number = MSI_STORE_MAGIC}}};
    size_t n = dialect == MSI_DIALECT_C;
    link->dialect = dialect;
    if (ping) x[n++].req = (struct msi_store_req){.op = MSI_OP_PING, .number = PING_NONCE};
    if (n && !ping)
        while (n <= PADDING) x[n++].req = (struct msi_store_req){.op = MSI_OP_NUM_KEYS};
    x[n++].req = (struct msi_store_req){.op = MSI_OP_CHECK, .n = 1, .keys = &mark};
    mst_status st = msi_store_conn_run(link, wait, x, n);
    struct msi_reader r = msi_reader(x[n - 1].reply.data, x[n - 1].reply.len);
    uint8_t missing = st == MST_OK ? msi_read_u8(&r) : 1;
    bool ours = missing == 0 && dialect == MSI_DIALECT_C;
    /* A stranger that talks unasked must not pass for a store. */
    if (st == MST_OK && (missing > 1 || link->in.len))
        st = msi_fail(MST_ERR_PROTOCOL, NULL, "its answer to CHECK is wrong");
    if (st == MST_OK && ping) {
        r = msi_reader(x[1].reply.data, x[1].reply.len);
        if (msi_read_u32(&r) != PING_NONCE)
            st = msi_fail(MST_ERR_PROTOCOL, NULL, "its answer to PING is wrong");
    }
    /* One of ours after all: the first probe must have met a server that was just ending. */
    if (st == MST_OK && missing == 0 && !ours) st = MST_ERR_STATE;
    msi_store_rpc_free(x, n);
    if (ours) link->dialect = MSI_DIALECT_M;
    link->greeting = ours ? MSI_GREET_HELLO : MSI_GREET_NONE;
    return st;
}

static mst_status connect_to(struct msi_link_target *target, const struct msi_wait *wait,
                             struct msi_store_conn **link) {
    struct msi_store_conn *made = calloc(1, sizeof *made);
    if (!made) return msi_fail_memory();
    *made = (struct msi_store_conn){.fd = -1, .target = target};
    mst_status st = msi_connect(&target->address, target->local, wait, &made->fd);
    if (st != MST_OK) {
        msi_store_conn_close(made);
        return st;
    }
    msi_socket_expect(made->fd, target->silence_s);
    *link = made;
    return MST_OK;
}

/*
 * One attempt with every probe: a server that does not know one hangs up, and the next is tried on a new
 * connection. Dialect A comes last: PyTorch's libuv servers neither answer nor hang up on it.
 */
static mst_status try_probes(struct msi_link_target *target, const struct msi_wait *wait,
                             struct msi_store_conn **link) {
    static const struct {
        enum msi_dialect dialect;
        bool ping;
    } tries[] = {{MSI_DIALECT_C, true}, {MSI_DIALECT_C, false}, {MSI_DIALECT_A, false}};
    mst_status st = MST_OK;
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        struct msi_store_conn *made;
        st = connect_to(target, wait, &made);
        if (st != MST_OK) return st;
        st = probe(made, wait, tries[i].dialect, tries[i].ping);
        if (st == MST_OK) {
            *link = made;
            return MST_OK;
        }
        msi_store_conn_close(made);
        if (st != MST_ERR_STORE_LOST && st != MST_ERR_PROTOCOL) return st;
    }
    return st;
}

/* A server that is just ending hangs up too: only one that goes on doing so is no store. */
static mst_status open_unknown(struct msi_link_target *target, const struct msi_wait *wait,
                               struct msi_store_conn **link) {
    mst_status st = MST_OK;
    for (int round = 0; round < PROBE_ROUNDS; round++) {
        st = try_probes(target, wait, link);
        if (st == MST_ERR_TIMEOUT) break;
        if (st != MST_ERR_STORE_LOST && st != MST_ERR_PROTOCOL && st != MST_ERR_STATE) return st;
        mst_status pause = msi_wait_pause(wait, PROBE_PAUSE_MS, "waiting to ask the store again");
        if (pause == MST_ERR_CANCELLED) return pause;
        if (pause != MST_OK) break;
    }
    char where[MSI_ADDRESS_TEXT_MAX];
    return msi_fail(MST_ERR_PROTOCOL, "is that the port of a store? another program may listen there",
                    "what listens at %s does not answer as a store does",
                    msi_address_format(&target->address, where));
}

mst_status msi_store_conn_open(struct msi_link_target *target, const struct msi_wait *wait,
                               struct msi_store_conn **link) {
    /* Relaxed: nothing but the number itself is handed from thread to thread. */
    int known = atomic_load_explicit(&target->dialect, memory_order_relaxed);
    mst_status st = known < 0 ? open_unknown(target, wait, link) : connect_to(target, wait, link);
    if (st != MST_OK) return st;
    if (known >= 0) {
        (*link)->dialect = (enum msi_dialect)known;
        (*link)->greeting = MSI_GREET_ALL;
    } else {
        msi_log(store, DEBUG, "store client in dialect %c", "ACM"[(*link)->dialect]);
        atomic_store_explicit(&target->dialect, (int)(*link)->dialect, memory_order_relaxed);
    }
    return MST_OK;
}

void msi_store_conn_close(struct msi_store_conn *link) {
    if (!link) return;
    if (link->fd >= 0) close(link->fd);
    msi_buf_free(&link->out);
    msi_buf_free(&link->in);
    free(link);
}
