/* url.h - urls of stores and init methods. Pure. */
#ifndef MSI_WIRE_URL_H
#define MSI_WIRE_URL_H

#include "base/address.h"

#include <muster/status.h>

enum msi_scheme { MSI_SCHEME_ENV, MSI_SCHEME_TCP, MSI_SCHEME_FILE, MSI_SCHEME_HASH };

enum { MSI_PATH_MAX = 1024 };

struct msi_url {
    enum msi_scheme scheme;
    struct msi_address address; /* tcp */
    char path[MSI_PATH_MAX];    /* file: absolute */
    int rank, world_size;       /* from the query; -1 when not given */
};

/* Parses env://, tcp://host:port?query, file:///path?query or hash://; MST_ERR_ADDRESS: malformed. */
mst_status msi_url_parse(const char *text, struct msi_url *url);

#endif
