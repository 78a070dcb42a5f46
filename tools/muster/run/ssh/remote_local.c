/* remote_local.c - names of this machine; see remote.h. No name is resolved: an alias goes over ssh. */
#include "run/ssh/remote.h"

#include "os/host.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

enum { INTERFACES_MAX = 256 };

/* An address of this machine or of its loopback interface. IPv6 addresses have several notations. */
static bool is_own_address(const char *name) {
    struct msi_netif list[INTERFACES_MAX];
    struct in6_addr six;
    struct in_addr four;
    char text[INET6_ADDRSTRLEN] = "";
    if (inet_pton(AF_INET, name, &four) == 1 && ntohl(four.s_addr) >> 24 == 127) return true;
    if (inet_pton(AF_INET6, name, &six) == 1) name = inet_ntop(AF_INET6, &six, text, sizeof text);
    int n = msi_netif_list(list, INTERFACES_MAX);
    for (int i = 0; i < n; i++)
        if (!strcasecmp(list[i].address, name)) return true;
    return !strcmp(text, "::1");
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
    return strcasecmp(name, "localhost") == 0 || is_own_address(name) || is_own_name(name);
}
