/* fuzz_url.c - urls. What is taken is within its limits, and a tcp address written again is the same one. */
#include "wire/url.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_address(const struct msi_address *address) {
    char text[MSI_ADDRESS_TEXT_MAX], url[MSI_ADDRESS_TEXT_MAX + 8];
    struct msi_url again;
    assert(address->host[0] && memchr(address->host, 0, MSI_HOST_MAX));
    assert(address->port >= 0 && address->port <= 65535);
    if (strpbrk(address->host, "?[]"))
        return; /* no name or address has these; they cannot be written again */
    snprintf(url, sizeof url, "tcp://%s", msi_address_format(address, text));
    assert(msi_url_parse(url, &again) == MST_OK);
    assert(!strcmp(again.address.host, address->host) && again.address.port == address->port);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct msi_url url, untouched;
    char *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    memset(&url, 0x5a, sizeof url);
    untouched = url;
    if (msi_url_parse(text, &url) == MST_OK) {
        assert(url.rank >= -1 && url.world_size >= -1);
        if (url.scheme == MSI_SCHEME_TCP) check_address(&url.address);
        if (url.scheme == MSI_SCHEME_FILE) assert(url.path[0] == '/' && memchr(url.path, 0, MSI_PATH_MAX));
    } else {
        assert(!memcmp(&url, &untouched, sizeof url));
    }
    free(text);
    return 0;
}
