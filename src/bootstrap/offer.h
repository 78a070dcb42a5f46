/* offer.h - the address that rank 0 offers to the other ranks through the launcher (pmi.h, pmix.h). */
#ifndef MSI_BOOTSTRAP_OFFER_H
#define MSI_BOOTSTRAP_OFFER_H

#include "base/address.h"

#include <muster/status.h>

/* Sets a port that is free on the host, starting from msi_launch_port(job). */
mst_status msi_offer_choose_port(const char *job, struct msi_address *offer);

/* Parses the text that rank 0 made with msi_address_format. */
mst_status msi_offer_parse(const char *text, struct msi_address *offer);

#endif
