/* remote_local.c - names of this machine; see remote.h. No name is resolved: an alias goes over ssh. */
#include "run/ssh/remote.h"

#include "os/host.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

enum { INTERFACES_MAX = 256 };

static bool is_loopback(const char *name) {
    struct in6_addr six;
    struct in_addr four;
    if (inet_pton(AF_INET, name, &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, name, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

/* An IPv6 address has several notations. */
static bool same_address(const char *a, const char *b) {
    struct in6_addr six_a, six_b;
    if (strcasecmp(a, b) == 0) return true;
    return inet_pton(AF_INET6, a, &six_a) == 1 && inet_pton(AF_INET6, b, &six_b) == 1 &&
           IN6_ARE_ADDR_EQUAL(&six_a, &six_b);
}

static bool is_own_address(const char *name) {
    struct msi_netif list[INTERFACES_MAX];
    int n = msi_netif_list(list, INTERFACES_MAX);
    for (int i = 0; i < n; i++)
        if (same_address(list[i].address, name)) return true;
    return false;
}

/* "node1" and "node1.example.org" are the same if one of them is the name of this host. */
static bool is_own_name(const char *name) {
    char own[MSI_HOST_MAX];
    size_t len = strcspn(msi_host_name(own), "."), given = strcspn(name, ".");
    if (strcasecmp(own, name) == 0) return true;
    return (own[len] == '\0' || name[given] == '\0') && len == given && strncasecmp(own, name, len) == 0;
}

bool remote_is_here(const char *name) {
    if (strchr(name, '@')) return false;
    return strcasecmp(name, "localhost") == 0 || is_loopback(name) || is_own_address(name) ||
           is_own_name(name);
}
