/*
 * fuzz_hosts.c - lists of hosts and tasks. The first byte picks the parser. What is taken has as many hosts
 * as it says, each a short name; what is refused leaves the outputs alone.
 */
#include "wire/hosts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tasks(const char *text) {
    uint64_t tasks = 77;
    if (msi_tasks_at("TASKS", text, 3, &tasks) == MST_OK)
        assert(tasks <= MSI_HOSTS_MAX);
    else
        assert(tasks == 77);
}

static void check_hosts(msi_hosts_parser *parse, const char *text) {
    char host[MSI_HOST_MAX], last[MSI_HOST_MAX];
    uint64_t count = 0;
    memset(host, 0x5a, sizeof host);
    if (parse("LIST", text, 0, host, &count) != MST_OK) {
        assert(count == 0 && host[0] == 0x5a);
        return;
    }
    assert(count > 0 && host[0] && memchr(host, 0, sizeof host));
    mst_status st = parse("LIST", text, count - 1, last, NULL);
    assert(st == MST_OK ||
           (parse == msi_hosts_slurm && strlen(text) > 200)); /* a later name may be too long */
    assert(parse("LIST", text, count, last, NULL) == MST_ERR_CONFIG);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static msi_hosts_parser *const parsers[] = {msi_hosts_slurm, msi_hosts_json, msi_hosts_lsf,
                                                msi_hosts_orte,  msi_hosts_port, msi_hosts_plain};
    enum { N = sizeof parsers / sizeof *parsers };
    if (!size) return 0;
    char *text = malloc(size);
    if (!text) return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    int which = data[0] % (N + 1);
    if (which == N)
        check_tasks(text);
    else
        check_hosts(parsers[which], text);
    free(text);
    return 0;
}
