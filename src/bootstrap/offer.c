/* offer.c - the address that rank 0 offers. See offer.h. */
#include "bootstrap/offer.h"
#include "bootstrap/launch.h"
#include "os/socket.h"
#include "wire/url.h"

#include <stdio.h>
#include <unistd.h>

mst_status msi_offer_choose_port(const char *job, struct msi_address *offer) {
    enum { PORTS_TRIED = 64 };
    mst_status st = MST_OK;
    for (int i = 0; i < PORTS_TRIED; i++) {
        int listener, port;
        offer->port = msi_launch_port(job) + i;
        st = msi_listen(offer, &listener, &port);
        if (st == MST_OK) close(listener);
        if (st != MST_ERR_PORT_TAKEN) break;
    }
    return st;
}

mst_status msi_offer_parse(const char *text, struct msi_address *offer) {
    char url[MSI_ADDRESS_TEXT_MAX + 8];
    struct msi_url parsed;
    snprintf(url, sizeof url, "tcp://%.*s", MSI_ADDRESS_TEXT_MAX, text);
    mst_status st = msi_url_parse(url, &parsed);
    if (st == MST_OK) *offer = parsed.address;
    return st;
}
