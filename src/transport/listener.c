/*
 * listener.c - see listener.h. The gate authenticates a connection and gives it to the listener with its
 * hello. It is not read until it is taken.
 */
#include "transport/listener.h"
#include "auth/gate.h"
#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "os/socket.h"
#include "wire/hello.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KEPT_PER_RANK = 4, KEPT_MORE = 64 };

_Static_assert((int)MSI_HELLO_BYTES == (int)MSI_AUTH_CONTEXT_BYTES, "the handshake carries the hello");

struct conn {
    struct msi_list node;
    struct msi_stream stream;
    struct msi_hello hello;
};

struct msi_listener {
    pthread_mutex_t lock;
    int fd, port;
    struct msi_gate *gate;
    uint64_t world;
    uint32_t rank, size;
    int64_t stall;            /* nanoseconds */
    struct msi_list conns;    /* of struct conn */
    struct msi_list reserve;  /* of struct conn: for connections that are welcome and not added yet */
    struct msi_list wake_fds; /* of struct msi_listener_wake */
    int reserved;             /* their number */
    size_t count, limit;      /* of conns */
    bool scarce_now;          /* no connection could be accepted in this call */
    int64_t scarce_since;     /* … since then; 0: they can */
    int scarce;               /* the errno of that */
};

/* Removes a connection from its list. count includes only the first socket of a rank. */
static void unlink_conn(struct msi_listener *l, struct conn *conn) {
    msi_list_remove(&conn->node);
    if (conn->hello.stream == 0) l->count--;
}

static void close_conn(struct msi_listener *l, struct conn *conn, const char *why) {
    char peer[MSI_ADDRESS_TEXT_MAX];
    if (why)
        msi_log(transport, INFO, "closed the connection from %s: %s", msi_socket_peer(conn->stream.fd, peer),
                why);
    unlink_conn(l, conn);
    shutdown(conn->stream.fd, SHUT_RDWR); /* even if a forked child still has the socket */
    msi_stream_close(&conn->stream);
    free(conn);
}

static struct conn *find(const struct msi_listener *l, uint64_t group, uint32_t from, int channel,
                         int socket) {
    for (struct msi_list *node = l->conns.next; node != &l->conns; node = node->next) {
        struct conn *conn = msi_container(node, struct conn, node);
        const struct msi_hello *hello = &conn->hello;
        if (hello->group == group && hello->from == from && hello->channel == channel &&
            hello->stream == socket)
            return conn;
    }
    return NULL;
}

static void notify(const struct msi_listener *l, uint64_t group) {
    const uint64_t one = 1;
    for (struct msi_list *node = l->wake_fds.next; node != &l->wake_fds; node = node->next) {
        const struct msi_listener_wake *wake_fd = msi_container(node, struct msi_listener_wake, node);
        ssize_t n = wake_fd->group == group ? write(wake_fd->fd, &one, sizeof one) : 0;
        (void)n; /* a full eventfd is already readable */
    }
}

/* Answers the hello of an authenticated rank; 0: welcome. */
static uint8_t judge(void *context, const uint8_t bytes[MSI_HELLO_BYTES]) {
    struct msi_listener *l = context;
    struct msi_hello hello = {0};
    enum msi_hello_answer reply = msi_hello_read(bytes, MSI_HELLO_BYTES, &hello);
    if (reply == MSI_HELLO_WELCOME) reply = msi_hello_judge(&hello, l->world, l->rank, l->size);
    if (reply == MSI_HELLO_WELCOME && hello.stream == 0 && l->count >= l->limit) {
        msi_log(transport, WARN, "refused a connection: %zu connections wait to be taken", l->count);
        reply = MSI_HELLO_BUSY;
    }
    if (reply != MSI_HELLO_WELCOME) return (uint8_t)reply;
    /* One for each connection that the gate may have; others were left by connections that failed later. */
    if (l->reserved == MSI_GATE_SLOTS) return 0;
    struct conn *conn = malloc(sizeof *conn);
    if (!conn) return MSI_HELLO_BUSY;
    msi_list_push(&l->reserve, &conn->node);
    l->reserved++;
    return 0;
}

static void add_conn(void *context, struct msi_stream stream, const uint8_t bytes[MSI_HELLO_BYTES]) {
    struct msi_listener *l = context;
    struct conn *conn = msi_container(l->reserve.next, struct conn, node); /* from judge */
    msi_list_remove(&conn->node);
    l->reserved--;
    msi_hello_read(bytes, MSI_HELLO_BYTES, &conn->hello);
    const struct msi_hello *hello = &conn->hello;
    struct conn *before = find(l, hello->group, hello->from, hello->channel, hello->stream);
    if (before) close_conn(l, before, "the rank has connected again");
    conn->stream = stream;
    msi_list_push(&l->conns, &conn->node);
    if (hello->stream == 0) l->count++;
    notify(l, hello->group);
}

static bool note_scarcity(void *context, int listening, int error) {
    struct msi_listener *l = context;
    (void)listening;
    msi_warn_once(transport, "cannot accept a connection: %s", strerror(error));
    l->scarce = error;
    l->scarce_now = true;
    return false;
}

void msi_listener_progress(struct msi_listener *l) {
    if (pthread_mutex_trylock(&l->lock)) return; /* another thread does this */
    l->scarce_now = false;
    msi_gate_progress(l->gate);
    if (!l->scarce_now)
        l->scarce_since = 0;
    else if (!l->scarce_since)
        l->scarce_since = msi_now();
    pthread_mutex_unlock(&l->lock);
}

struct msi_stream msi_listener_take(struct msi_listener *l, uint64_t group, int from, int channel, int socket,
                                    int *sockets) {
    struct msi_stream stream = {.fd = -1};
    if (pthread_mutex_trylock(&l->lock)) return stream;
    struct conn *conn = find(l, group, (uint32_t)from, channel, socket);
    if (conn) {
        *sockets = conn->hello.streams;
        stream = conn->stream;
        unlink_conn(l, conn);
        free(conn);
    }
    pthread_mutex_unlock(&l->lock);
    return stream;
}

mst_status msi_listener_check(struct msi_listener *l) {
    mst_status st = MST_OK;
    if (pthread_mutex_trylock(&l->lock)) return st;
    if (l->scarce_since && msi_now() - l->scarce_since >= l->stall)
        st = msi_fail_errno(l->scarce, "cannot accept the connections of other ranks");
    pthread_mutex_unlock(&l->lock);
    return st;
}

void msi_listener_watch(struct msi_listener *l, struct msi_listener_wake *wake_fd) {
    pthread_mutex_lock(&l->lock);
    msi_list_push(&l->wake_fds, &wake_fd->node);
    pthread_mutex_unlock(&l->lock);
}

void msi_listener_unwatch(struct msi_listener *l, struct msi_listener_wake *wake_fd) {
    pthread_mutex_lock(&l->lock);
    msi_list_remove(&wake_fd->node);
    pthread_mutex_unlock(&l->lock);
}

int msi_listener_port(const struct msi_listener *l) {
    return l->port;
}

int msi_listener_fd(const struct msi_listener *l) {
    return msi_gate_fd(l->gate);
}

void msi_listener_set_stall(struct msi_listener *l, int stall_ms) {
    pthread_mutex_lock(&l->lock);
    l->stall = (int64_t)stall_ms * 1000000;
    msi_gate_set_stall(l->gate, stall_ms);
    pthread_mutex_unlock(&l->lock);
}

mst_status msi_listener_open(const struct msi_address *address, struct msi_auth *auth, uint64_t world,
                             int rank, int size, struct msi_listener **listener) {
    struct msi_listener *l = calloc(1, sizeof *l);
    if (!l) return msi_fail_memory();
    const struct msi_gate_config config = {.auth = auth,
                                           .role = MSI_ROLE_LINK,
                                           .context = l,
                                           .admit = add_conn,
                                           .judge = judge,
                                           .scarce = note_scarcity};
    mst_status st = msi_listen(address, &l->fd, &l->port);
    if (st != MST_OK) {
        free(l);
        return st;
    }
    st = msi_gate_open(&config, &l->gate);
    if (st == MST_OK) st = msi_gate_listen(l->gate, l->fd);
    if (st != MST_OK) {
        msi_gate_close(l->gate);
        close(l->fd);
        free(l);
        return st;
    }
    pthread_mutex_init(&l->lock, NULL);
    l->world = world;
    l->rank = (uint32_t)rank;
    l->size = (uint32_t)size;
    l->stall = (int64_t)MSI_LISTENER_STALL_MS * 1000000;
    l->limit = (size_t)size * KEPT_PER_RANK + KEPT_MORE;
    msi_list_init(&l->conns);
    msi_list_init(&l->reserve);
    msi_list_init(&l->wake_fds);
    *listener = l;
    return MST_OK;
}

void msi_listener_close(struct msi_listener *l) {
    if (!l) return;
    while (!msi_list_empty(&l->conns)) close_conn(l, msi_container(l->conns.next, struct conn, node), NULL);
    while (!msi_list_empty(&l->reserve)) {
        struct conn *conn = msi_container(l->reserve.next, struct conn, node);
        msi_list_remove(&conn->node);
        free(conn);
    }
    msi_gate_close(l->gate);
    close(l->fd);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
