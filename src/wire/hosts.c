/* hosts.c - lists of hosts, except Slurm's. See hosts.h. */
#include "wire/hosts.h"
#include "base/error.h"
#include "base/json.h"

#include <stdbool.h>
#include <string.h>

static mst_status malformed(const char *name, const char *text, const char *what) {
    return msi_fail(MST_ERR_CONFIG, "correct it, or set MASTER_ADDR to rank 0's host", "%s='%.200s' %s", name,
                    text, what);
}

static bool is_host(const char *text, size_t len) {
    if (len == 0 || len >= MSI_HOST_MAX) return false;
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~' || strchr("\"\\,;/?#@", text[i])) return false;
    return true;
}

/* A list of one host. */
static mst_status only(const char *name, const char *text, struct msi_str part, uint64_t n,
                       char host[MSI_HOST_MAX], uint64_t *count) {
    if (!is_host(part.p, part.n)) return malformed(name, text, "is not a name or address of a host");
    if (n) return malformed(name, text, "names too few hosts");
    msi_str_copy(part, host, MSI_HOST_MAX);
    if (count) *count = 1;
    return MST_OK;
}

mst_status msi_hosts_plain(const char *name, const char *text, uint64_t n, char host[MSI_HOST_MAX],
                           uint64_t *count) {
    return only(name, text, msi_cstr(text), n, host, count);
}

mst_status msi_hosts_port(const char *name, const char *text, uint64_t n, char host[MSI_HOST_MAX],
                          uint64_t *count) {
    const char *end = text + strlen(text);
    if (*text == '[') {
        const char *bracket = strchr(text, ']');
        if (!bracket || (bracket[1] && bracket[1] != ':'))
            return malformed(name, text, "is not [address]:port");
        text++;
        end = bracket;
    } else {
        const char *colon = strchr(text, ':');
        if (colon && !strchr(colon + 1, ':'))
            end = colon; /* more than one colon: an IPv6 address without port */
    }
    return only(name, text, msi_str(text, (size_t)(end - text)), n, host, count);
}

/* The next name of a JSON list; escapes are not allowed. */
static bool json_next(struct msi_json *in, struct msi_json_text *name) {
    if (!msi_json_item(in) || !msi_json_string(in, name)) return false;
    return is_host(name->p, name->n) || msi_json_fail(in, "a host");
}

mst_status msi_hosts_json(const char *name, const char *text, uint64_t n, char host[MSI_HOST_MAX],
                          uint64_t *count) {
    struct msi_json in = msi_json_of(text, strlen(text));
    struct msi_json_text item, found = {0};
    uint64_t i = 0;
    msi_json_array(&in);
    for (; json_next(&in, &item); i++)
        if (i == n) found = item;
    if (!msi_json_end(&in) || !i)
        return malformed(name, text, "is not a JSON list of host names such as [\"a\",\"b\"]");
    if (!found.p) return malformed(name, text, "names too few hosts");
    msi_str_copy(msi_str(found.p, found.n), host, MSI_HOST_MAX);
    if (count) *count = i;
    return MST_OK;
}

mst_status msi_hosts_json_find(const char *name, const char *text, const char *host, uint64_t *at) {
    struct msi_json in = msi_json_of(text, strlen(text));
    struct msi_json_text item;
    uint64_t i = 0;
    msi_json_array(&in);
    for (; json_next(&in, &item); i++)
        if (msi_json_is(item, host)) {
            *at = i;
            return MST_OK;
        }
    return msi_fail(MST_ERR_CONFIG, NULL, "%s='%.200s' is not a JSON list that contains '%.200s'", name, text,
                    host);
}

mst_status msi_hosts_lsf(const char *name, const char *text, uint64_t n, char host[MSI_HOST_MAX],
                         uint64_t *count) {
    static const char blank[] = " \t\n";
    const char *found = NULL;
    size_t len = 0;
    uint64_t i = 0;
    for (const char *at = text + strspn(text, blank); *at; i++) {
        size_t n_name = strcspn(at, blank);
        const char *slots = at + n_name + strspn(at + n_name, blank);
        size_t digits = strspn(slots, "0123456789");
        if (!is_host(at, n_name) || !digits || (slots[digits] && !strchr(blank, slots[digits])))
            return malformed(name, text, "is not a list of names and slots such as 'a 4 b 4'");
        if (i == n) {
            found = at;
            len = n_name;
        }
        at = slots + digits + strspn(slots + digits, blank);
    }
    if (!found) return malformed(name, text, "names too few hosts");
    msi_str_copy(msi_str(found, len), host, MSI_HOST_MAX);
    if (count) *count = i;
    return MST_OK;
}

mst_status msi_hosts_orte(const char *name, const char *text, uint64_t n, char host[MSI_HOST_MAX],
                          uint64_t *count) {
    const char *tcp = strstr(text, ";tcp://"), *tcp6 = strstr(text, ";tcp6://");
    const char *at = tcp ? tcp + 7 : tcp6 ? tcp6 + 8 : NULL;
    if (!at) return malformed(name, text, "has no tcp:// address");
    bool six = *at == '[';
    if (six) at++;
    /* The port follows a colon; commas separate several addresses. */
    return only(name, text, msi_str(at, strcspn(at, six ? "],;" : ",:;")), n, host, count);
}
