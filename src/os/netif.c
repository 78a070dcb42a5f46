/* netif.c - network interfaces and the address that other hosts use. See host.h. */
#include "base/error.h"
#include "os/host.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool show(const struct sockaddr *address, socklen_t len, char out[64]) {
    return address && !getnameinfo(address, len, out, 64, NULL, 0, NI_NUMERICHOST);
}

int msi_netif_list(struct msi_netif *list, int max) {
    struct ifaddrs *all = NULL;
    int n = 0;
    if (getifaddrs(&all)) return 0;
    for (struct ifaddrs *a = all; a && n < max; a = a->ifa_next) {
        int family = a->ifa_addr ? a->ifa_addr->sa_family : AF_UNSPEC;
        if (family != AF_INET && family != AF_INET6) continue;
        struct msi_netif *out = &list[n];
        socklen_t len = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        if (!show(a->ifa_addr, len, out->address)) continue;
        snprintf(out->name, sizeof out->name, "%s", a->ifa_name);
        out->up = a->ifa_flags & IFF_UP;
        out->loopback = a->ifa_flags & IFF_LOOPBACK;
        out->six = family == AF_INET6;
        n++;
    }
    freeifaddrs(all);
    return n;
}

/* The local address of a connected datagram socket: the kernel chooses the route without sending. */
static bool route_to(const struct msi_address *target, char out[64]) {
    char port[16];
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICSERV}, *found = NULL;
    snprintf(port, sizeof port, "%d", target->port ? target->port : 1);
    if (getaddrinfo(target->host, port, &hints, &found)) return false;
    bool known = false;
    for (struct addrinfo *a = found; a && !known; a = a->ai_next) {
        struct sockaddr_storage name;
        socklen_t len = sizeof name;
        int fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0) continue;
        known = !connect(fd, a->ai_addr, a->ai_addrlen) && !getsockname(fd, (struct sockaddr *)&name, &len) &&
                show((struct sockaddr *)&name, len, out);
        close(fd);
    }
    freeaddrinfo(found);
    return known;
}

bool msi_host_is_loopback(const char *name) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    char address[64];
    bool meant = inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
    if (meant || !strcmp(name, "localhost")) return false;
    if (getaddrinfo(name, NULL, &hints, &found)) return false;
    bool all = true;
    for (struct addrinfo *a = found; a; a = a->ai_next)
        all &= show(a->ai_addr, a->ai_addrlen, address) &&
               (!strncmp(address, "127.", 4) || !strcmp(address, "::1"));
    freeaddrinfo(found);
    return all;
}

/* The first suitable interface, IPv4 before IPv6. */
static const struct msi_netif *pick(const struct msi_netif *list, int n, const char *ifname) {
    for (int six = 0; six < 2; six++)
        for (int i = 0; i < n; i++) {
            bool link_local = strchr(list[i].address, '%'); /* not valid on another host */
            if (list[i].six != (six == 1) || !list[i].up || link_local) continue;
            if (*ifname ? !strcmp(list[i].name, ifname) : !list[i].loopback) return &list[i];
        }
    return NULL;
}

mst_status msi_netif_choose(const char *advertise, const char *ifname, const struct msi_address *target,
                            char out[64], const char **why) {
    if (*advertise) {
        snprintf(out, 64, "%s", advertise);
        *why = "MUSTER_ADVERTISE_ADDR";
        return MST_OK;
    }
    if (!*ifname && target && route_to(target, out)) {
        *why = "the route to the master";
        return MST_OK;
    }
    struct msi_netif list[64];
    int n = msi_netif_list(list, 64);
    const struct msi_netif *found = pick(list, n, ifname);
    if (*ifname && !found) {
        char names[200] = "";
        for (int i = 0; i < n; i++)
            if (!strstr(names, list[i].name) && strlen(names) + strlen(list[i].name) + 2 < sizeof names)
                strcat(strcat(names, " "), list[i].name);
        return msi_fail(MST_ERR_CONFIG, "use one of those, or unset it",
                        "MUSTER_SOCKET_IFNAME='%s' is not an interface of this host that is up and has an "
                        "address; those are:%s",
                        ifname, names);
    }
    snprintf(out, 64, "%s", found ? found->address : "127.0.0.1");
    *why = *ifname ? "MUSTER_SOCKET_IFNAME"
           : found ? "the first interface that is up"
                   : "no other interface is up";
    return MST_OK;
}
