/* url.c - parsing urls. See url.h. */
#include "wire/url.h"
#include "base/error.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>

static const char forms[] =
    "use env://, tcp://host:port?rank=R&world_size=N, file:///path?rank=R&world_size=N, or for "
    "a store hash://";

/* Accepts only decimal digits: no sign, blank or overflow. */
static bool parse_int(const char *text, size_t len, int most, int *value) {
    int number = 0;
    if (len == 0) return false;
    for (size_t i = 0; i < len; i++) {
        int digit = text[i] - '0';
        if (digit < 0 || digit > 9 || number > (most - digit) / 10) return false;
        number = number * 10 + digit;
    }
    *value = number;
    return true;
}

static mst_status parse_address(const char *text, size_t len, struct msi_address *address) {
    const char *host = text, *colon = NULL;
    size_t host_len;
    if (len && text[0] == '[') {
        const char *bracket = memchr(text, ']', len);
        host = text + 1;
        host_len = bracket ? (size_t)(bracket - host) : 0;
        if (bracket && bracket + 1 < text + len && bracket[1] == ':') colon = bracket + 1;
    } else {
        for (size_t i = 0; i < len; i++)
            if (text[i] == ':') {
                if (colon)
                    return msi_fail(MST_ERR_ADDRESS, "write an IPv6 address in brackets: [::1]:29500",
                                    "'%.*s' has more than one colon", (int)len, text);
                colon = text + i;
            }
        host_len = colon ? (size_t)(colon - text) : 0;
    }
    if (!colon || host_len == 0 || host_len >= MSI_HOST_MAX)
        return msi_fail(MST_ERR_ADDRESS, "write host:port, for example 127.0.0.1:29500",
                        "'%.*s' is not host:port", (int)len, text);
    int port;
    if (!parse_int(colon + 1, len - (size_t)(colon + 1 - text), 65535, &port))
        return msi_fail(MST_ERR_ADDRESS, NULL, "the port in '%.*s' is not a number from 0 to 65535", (int)len,
                        text);
    memcpy(address->host, host, host_len);
    address->host[host_len] = 0;
    address->port = port;
    return MST_OK;
}

static mst_status parse_query(const char *text, const char *query, struct msi_url *url) {
    while (*query) {
        size_t len = strcspn(query, "&");
        const char *equals = memchr(query, '=', len);
        size_t name_len = equals ? (size_t)(equals - query) : len;
        int *target = NULL;
        if (name_len == 4 && !memcmp(query, "rank", 4)) target = &url->rank;
        if (name_len == 10 && !memcmp(query, "world_size", 10)) target = &url->world_size;
        if (!target || !equals)
            return msi_fail(MST_ERR_ADDRESS, "only rank=R and world_size=N are allowed",
                            "'%.*s' in '%s' is not known", (int)len, query, text);
        if (!parse_int(equals + 1, len - name_len - 1, INT_MAX, target))
            return msi_fail(MST_ERR_ADDRESS, NULL, "'%.*s' in '%s' is not a whole number", (int)len, query,
                            text);
        query += len;
        if (*query) query++;
    }
    return MST_OK;
}

mst_status msi_url_parse(const char *text, struct msi_url *url) {
    struct msi_url made = {.rank = -1, .world_size = -1};
    const char *mark = strchr(text, '?');
    size_t len = mark ? (size_t)(mark - text) : strlen(text);
    if (len >= 6 && !memcmp(text, "tcp://", 6)) {
        made.scheme = MSI_SCHEME_TCP;
        mst_status st = parse_address(text + 6, len - 6, &made.address);
        if (st != MST_OK) return st;
    } else if (len >= 7 && !memcmp(text, "file://", 7)) {
        made.scheme = MSI_SCHEME_FILE;
        if (len < 9 || text[7] != '/' || len - 7 >= MSI_PATH_MAX)
            return msi_fail(MST_ERR_ADDRESS, "give an absolute path: file:///shared/store",
                            "'%s' names no file", text);
        memcpy(made.path, text + 7, len - 7);
    } else if (len == 6 && !memcmp(text, "env://", 6)) {
        made.scheme = MSI_SCHEME_ENV;
    } else if (len == 7 && !memcmp(text, "hash://", 7)) {
        made.scheme = MSI_SCHEME_HASH;
    } else {
        return msi_fail(MST_ERR_ADDRESS, forms, "'%s' is not a known url of a store or init method", text);
    }
    if (mark) {
        mst_status st = parse_query(text, mark + 1, &made);
        if (st != MST_OK) return st;
    }
    *url = made;
    return MST_OK;
}
