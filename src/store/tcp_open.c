/* tcp_open.c - opens connections of a store client, and detects the dialect of the server. See tcp_conn.h. */
#include "base/error.h"
#include "base/log.h"
#include "os/socket.h"
#include "store/tcp_conn.h"
#include "wire/cursor.h"

#include <errno.h>
#include <stdlib.h>

enum { PROBE_ROUNDS = 4, PROBE_PAUSE_MS = 60 };

/*
 * A server of dialect A reads the VALIDATE of a probe and the bytes after it as the length of a key. With
 * this nonce, or with three NUM_KEYS of a byte each, the length is so large that it rejects the request at
 * once.
 */
#define PING_NONCE 0xFFFFFFFFu
enum { PADDING = 3 };

/*
 * Probes the server in that dialect. MST_OK: the dialect is known now. MST_ERR_STORE_LOST: the server hung
 * up. MST_ERR_STATE: it is a muster server; probe again from the start.
 */
static mst_status probe(struct msi_store_conn *conn, const struct msi_wait *wait, enum msi_dialect dialect,
                        bool ping) {
    struct msi_str mark = msi_cstr(MSI_STORE_MARK_KEY);
    struct msi_store_rpc x[2 + PADDING] = {{.req = {.op = MSI_OP_VALIDATE, .number = MSI_STORE_MAGIC}}};
    size_t n = dialect == MSI_DIALECT_C;
    conn->dialect = dialect;
    if (ping) x[n++].req = (struct msi_store_req){.op = MSI_OP_PING, .number = PING_NONCE};
    if (n && !ping)
        while (n <= PADDING) x[n++].req = (struct msi_store_req){.op = MSI_OP_NUM_KEYS};
    x[n++].req = (struct msi_store_req){.op = MSI_OP_CHECK, .n = 1, .keys = &mark};
    mst_status st = msi_store_conn_run(conn, wait, x, n);
    struct msi_reader r = msi_reader(x[n - 1].reply.data, x[n - 1].reply.len);
    uint8_t missing = st == MST_OK ? msi_read_u8(&r) : 1;
    bool ours = missing == 0 && dialect == MSI_DIALECT_C;
    /* A server that sends more than the reply is not a store. */
    if (st == MST_OK && (missing > 1 || conn->in.len))
        st = msi_fail(MST_ERR_PROTOCOL, NULL, "its answer to CHECK is wrong");
    if (st == MST_OK && ping) {
        r = msi_reader(x[1].reply.data, x[1].reply.len);
        if (msi_read_u32(&r) != PING_NONCE)
            st = msi_fail(MST_ERR_PROTOCOL, NULL, "its answer to PING is wrong");
    }
    /* A muster server: the first probe must have reached one that was ending. */
    if (st == MST_OK && missing == 0 && !ours) st = MST_ERR_STATE;
    msi_store_rpc_free(x, n);
    if (ours) conn->dialect = MSI_DIALECT_M;
    conn->greeting = ours ? MSI_GREETING_HELLO : MSI_GREETING_NONE;
    return st;
}

static mst_status connect_to(struct msi_store_target *target, const struct msi_wait *wait,
                             struct msi_store_conn **conn) {
    struct msi_store_conn *made = calloc(1, sizeof *made);
    if (!made) return msi_fail_memory();
    int place = atomic_load_explicit(&target->place, memory_order_relaxed), error = 0;
    *made = (struct msi_store_conn){.stream.fd = -1, .target = target, .place = place};
    mst_status st = MST_ERR_UNREACHABLE;
    for (; st == MST_ERR_UNREACHABLE && msi_store_target_has_next(target, made->place); made->place++) {
        st = msi_connect_once(&target->places[made->place], target->local, wait, &made->stream.fd, &error);
        if (st != MST_ERR_UNREACHABLE || error == 0 || error == ETIMEDOUT) break;
    }
    if (st == MST_ERR_UNREACHABLE)
        st = msi_connect(&target->places[made->place], target->local, wait, &made->stream.fd);
    if (st != MST_OK) {
        msi_store_conn_close(made);
        return st;
    }
    made->local = msi_socket_is_local(made->stream.fd);
    if (!made->local) msi_socket_expect(made->stream.fd);
    msi_store_conn_name_session(made);
    *conn = made;
    return MST_OK;
}

/*
 * Tries every probe once, each on a new connection, because a server that does not know a probe hangs up.
 * Dialect A comes last: PyTorch's libuv servers neither answer it nor hang up.
 */
static mst_status try_probes(struct msi_store_target *target, const struct msi_wait *wait,
                             struct msi_store_conn **conn) {
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
            *conn = made;
            return MST_OK;
        }
        msi_store_conn_close(made);
        if (st != MST_ERR_STORE_LOST && st != MST_ERR_PROTOCOL) return st;
    }
    return st;
}

/* A server that is ending hangs up too: only one that keeps doing so is not a store. */
static mst_status open_unknown(struct msi_store_target *target, const struct msi_wait *wait,
                               struct msi_store_conn **conn) {
    mst_status st = MST_OK;
    for (int round = 0; round < PROBE_ROUNDS; round++) {
        st = try_probes(target, wait, conn);
        if (st == MST_ERR_TIMEOUT) break;
        if (st != MST_ERR_STORE_LOST && st != MST_ERR_PROTOCOL && st != MST_ERR_STATE) return st;
        mst_status pause = msi_wait_pause(wait, PROBE_PAUSE_MS, "waiting to ask the store again");
        if (pause == MST_ERR_CANCELLED) return pause;
        if (pause != MST_OK) break;
    }
    char where[MSI_ADDRESS_TEXT_MAX];
    msi_address_format(msi_store_target_address(target), where);
    const char *remedy =
        target->open
            ? "check the port, where another program may listen; if it is a store of muster, unset "
              "MUSTER_STORE_OPEN, or set it for the process that hosts the store too"
            : "check the port, where another program may listen, and the limit of open files of the "
              "process that hosts the store (ulimit -n); a store of PyTorch needs MUSTER_STORE_OPEN=1";
    if (st == MST_ERR_TIMEOUT)
        return msi_fail(st, remedy, "the server at %s has not answered like a store before the timeout",
                        where);
    return msi_fail(MST_ERR_PROTOCOL, remedy, "the server at %s does not answer like a store", where);
}

/* A host that answered before and does not accept a connection within the timeout is lost. */
static mst_status open_known(struct msi_store_target *target, const struct msi_wait *wait,
                             struct msi_store_conn **conn) {
    int64_t until = msi_deadline(msi_socket_timeout() * INT64_C(1000));
    bool last = until < wait->deadline;
    struct msi_wait brief = {last ? until : wait->deadline, wait->cancel};
    mst_status st = connect_to(target, &brief, conn);
    return st == MST_ERR_UNREACHABLE && last ? msi_store_fail_lost(target, "it cannot be reached") : st;
}

mst_status msi_store_conn_open(struct msi_store_target *target, const struct msi_wait *wait,
                               struct msi_store_conn **conn) {
    /* Relaxed: orders nothing but the number itself. */
    int known = atomic_load_explicit(&target->dialect, memory_order_relaxed);
    mst_status st = known < 0 ? open_unknown(target, wait, conn) : open_known(target, wait, conn);
    if (st != MST_OK) return st;
    if (known >= 0) {
        (*conn)->dialect = (enum msi_dialect)known;
        (*conn)->greeting = MSI_GREETING_FULL;
    } else {
        msi_log(store, DEBUG, "store client in dialect %c", "ACM"[(*conn)->dialect]);
        atomic_store_explicit(&target->dialect, (int)(*conn)->dialect, memory_order_relaxed);
    }
    return MST_OK;
}
