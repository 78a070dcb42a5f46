/* address.h - host and port. */
#ifndef MSI_BASE_ADDRESS_H
#define MSI_BASE_ADDRESS_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { MSI_HOST_MAX = 256, MSI_ADDRESS_TEXT_MAX = MSI_HOST_MAX + 16 };

struct msi_address {
    char host[MSI_HOST_MAX]; /* a name or an address, without brackets */
    int port;
};

/* Writes "host:port", with brackets around an IPv6 address; returns out. */
static inline const char *msi_address_format(const struct msi_address *address,
                                             char out[MSI_ADDRESS_TEXT_MAX]) {
    bool six = strchr(address->host, ':');
    snprintf(out, MSI_ADDRESS_TEXT_MAX, "%s%s%s:%d", six ? "[" : "", address->host, six ? "]" : "",
             address->port);
    return out;
}

#endif
