/*
 * fuzz_hostfile.c - the values of --hosts (first byte even) and --hostfile (odd). Accepted names cannot be
 * mistaken for options of ssh, and their counts are in range; a rejected list gives a message of one line and
 * leaves hosts unchanged.
 */
#include "../../tools/muster/cli/text.c"
#include "../../tools/muster/run/nodes/hosts.c"

#include <muster/muster.h>

#include <assert.h>
#include <errno.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* All that hosts.c needs of options.c, which would bring the whole tool along. */
bool opt_read_number(const char *text, long long min, long long max, long long *number) {
    char *end;

    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < min || value > max) return false;
    *number = value;
    return true;
}

static void check_host(const struct host *host) {
    char text[HOSTS_NPROC_MAX];

    assert(host->name[0] != '\0' && host->name[0] != '-' && memchr(host->name, 0, sizeof host->name));
    for (const char *at = host->name; *at != '\0'; at++)
        assert(*at > ' ' && *at <= '~' && !strchr("'\"[],;", *at));
    assert(host->ranks >= 0 && host->open >= 0 && host->ranks + host->open > 0);
    assert(host->ranks <= HOSTS_RANKS_MAX);
    if (hosts_nproc(host, "3", text) == MST_OK) assert(atoi(text) > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct hosts hosts = {.n = -1};
    if (!size) return 0;
    char *text = malloc(size);
    if (!text) return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    mst_status st =
        data[0] % 2 ? hosts_read_lines("file", text, size - 1, &hosts) : hosts_read_list(text, &hosts);
    if (st == MST_OK) {
        assert(hosts.n > 0 && hosts.n <= HOSTS_MAX);
        for (int i = 0; i < hosts.n; i++) check_host(&hosts.list[i]);
        hosts_free(&hosts);
    } else {
        const char *why = mst_last_error()->message;
        assert(hosts.n == -1 && why[0] && !strchr(why, '\n'));
    }
    free(text);
    return 0;
}
