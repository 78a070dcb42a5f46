/* tcp_compat.c - operations on PyTorch's servers, which lack some of ours. */
#include "base/error.h"
#include "os/socket.h"
#include "store/emulate.h"
#include "store/tcp_conn.h"

#include <unistd.h>

enum { BRIEF_MS = 200 };

/*
 * Runs an operation of later versions. A server that does not know it hangs up but still accepts connections.
 * A push has no reply, so a QUEUE_LEN follows it.
 */
static mst_status run_recent(struct msi_store_conn *conn, const struct msi_wait *wait,
                             struct msi_store_rpc *x) {
    struct msi_store_rpc pair[2] = {{.req = x->req}, {.req = {.op = MSI_OP_QUEUE_LEN, .key = x->req.key}}};
    mst_status st = msi_store_conn_run(conn, wait, pair, x->req.op == MSI_OP_QUEUE_PUSH ? 2 : 1);
    x->reply = pair[0].reply;
    msi_buf_free(&pair[1].reply);
    if (st != MST_ERR_STORE_LOST) return st;
    struct msi_wait brief = {msi_deadline(BRIEF_MS), wait->cancel};
    int fd;
    if (msi_connect(msi_store_target_address(conn->target), false, &brief, &fd) != MST_OK)
        return msi_fail(st, "check the process that hosts it", "lost the store (during %s)",
                        msi_ops[x->req.op].name);
    close(fd);
    return msi_fail(MST_ERR_UNSUPPORTED, NULL, "the server of this store does not support %s",
                    msi_ops[x->req.op].name);
}

static mst_status run(void *context, const struct msi_wait *wait, struct msi_store_rpc *x, size_t n) {
    struct msi_store_conn *conn = context;
    bool recent = x->req.op == MSI_OP_LIST_KEYS || x->req.op == MSI_OP_QUEUE_PUSH ||
                  x->req.op == MSI_OP_QUEUE_POP || x->req.op == MSI_OP_QUEUE_LEN;
    return recent ? run_recent(conn, wait, x) : msi_store_conn_run(conn, wait, x, n);
}

mst_status msi_store_conn_run_compat(struct msi_store_conn *conn, const struct msi_wait *wait,
                                     struct msi_store_rpc *x, size_t n) {
    bool a = conn->dialect == MSI_DIALECT_A;
    const struct msi_basic_store basic = {
        .run = run, .context = conn, .polls = a, .appends = !a, .sets_many = !a, .broken = &conn->broken};
    return msi_store_emulate(&basic, wait, x, n);
}
