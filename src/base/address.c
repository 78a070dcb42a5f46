/* address.c - host and port as text. */
#include "base/address.h"

#include <stdio.h>
#include <string.h>

const char *msi_address_format(const struct msi_address *address, char out[MSI_ADDRESS_TEXT_MAX]) {
    const char *left = "", *right = "";
    if (strchr(address->host, ':')) left = "[", right = "]";
    snprintf(out, MSI_ADDRESS_TEXT_MAX, "%s%s%s:%d", left, address->host, right, address->port);
    return out;
}
