/*
 * offer.h - the address that rank 0 offers to the others through the launcher (pmi.h, pmix.h): its port, and its text.
 */
#ifndef MSI_BOOTSTRAP_OFFER_H
#define MSI_BOOTSTRAP_OFFER_H

#include "base/address.h"

#include <muster/status.h>

/* Gives the offer a port that is free on its host, beginning with the one that goes with the job. */
mst_status msi_offer_choose_port(const char *job, struct msi_address *offer);

/* Reads what msi_address_format wrote on rank 0. */
mst_status msi_offer_parse(const char *text, struct msi_address *offer);

#endif
