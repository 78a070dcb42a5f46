/* test_endpoint.c - how a rank publishes the port at which ranks of other hosts reach it. */
#include "base/error.h"
#include "comm/comm_internal.h"
#include "harness.h"
#include "wireup/endpoint.h"

/* The store executes a request, but this rank has no memory for the reply. */
static mst_status exec(void *context, const struct msi_wait *wait, struct msi_store_rpc *x, size_t n) {
    static bool failed;
    mst_status st = msi_store_exec(context, wait, x, n);
    if (st != MST_OK || x->req.op != MSI_OP_SET || failed) return st;
    failed = true;
    return msi_fail_memory();
}

static int port_in(mst_store *store) {
    struct msi_wait wait = {msi_deadline(1000), NULL};
    struct msi_store_rpc x = {.req = msi_read_request(msi_cstr("world/endpoint/0"))};
    char text[16];
    assert_int_equal(msi_store_exec(store, &wait, &x, 1), MST_OK);
    int port = atoi(msi_str_copy(msi_store_reply_value(&x), text, sizeof text));
    msi_store_rpc_free(&x, 1);
    return port;
}

/* Another rank may have read the port, and keeps connecting to it. */
static void a_published_port_stays(void **state) {
    (void)state;
    mst_store *store;
    struct msi_wait wait = {msi_deadline(1000), NULL};
    struct msi_endpoint endpoint;
    char key[] = "world/g";
    struct msi_comm comm = {.key = key, .config.endpoint = &endpoint, .hooks.exec = exec};
    assert_int_equal(mst_store_open("hash://", &store), MST_OK);
    comm.hooks.context = store;
    assert_int_equal(msi_endpoint_init(&endpoint, 0, 2, "world/", "127.0.0.1", 1), MST_OK);
    assert_int_equal(msi_endpoint_open(&comm, &wait), MST_ERR_MEMORY);
    int port = port_in(store);
    assert_int_equal(msi_endpoint_open(&comm, &wait), MST_OK);
    assert_int_equal(port_in(store), port);
    assert_int_equal(msi_listener_port(endpoint.listener), port);
    msi_endpoint_close(&endpoint);
    mst_store_free(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_published_port_stays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
