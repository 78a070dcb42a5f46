/* tls.c - the option .tls of stores and worlds. The driver tests/multi/test_tls.py runs it. */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>

static void check(mst_status status) {
    if (status == MST_OK) return;
    printf("%s\n", mst_error());
    exit(1);
}

int main(void) {
    mst_store *server, *client;
    char url[64];
    check(mst_store_open("tcp://127.0.0.1:0", &server, .is_master = true, .tls = true));
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", mst_store_port(server));
    if (mst_store_open(url, &client, .timeout_ms = 20000) != MST_ERR_CONFIG) {
        printf("a client without TLS was not refused\n");
        return 1;
    }
    check(mst_store_open(url, &client, .tls = true));
    mst_store *copy;
    check(mst_store_clone(client, &copy));
    check(mst_init(.store = copy, .rank = 0, .world_size = 1, .tls = true));
    check(mst_barrier());
    mst_destroy_process_group(NULL);
    mst_store_free(copy);
    mst_store_free(client);
    mst_store_free(server);
    printf("right\n");
    return 0;
}
