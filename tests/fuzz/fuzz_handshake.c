/*
 * fuzz_handshake.c - what a stranger sends to either end of a handshake. The first byte selects the end and
 * whether it has a secret. No end accepts a stranger, and none reads more than its messages.
 */
#include "auth/handshake.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool no_user(void *argument) {
    (void)argument;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t key[MSI_SECRET_BYTES] = {1, 2, 3};
    struct msi_handshake h;
    size_t at = 1, n;
    if (!size) return 0;
    struct msi_handshake_config config = {.server = data[0] & 1,
                                          .role = MSI_ROLE_STORE,
                                          .key = data[0] & 2 ? NULL : key,
                                          .source = MSI_SECRET_FROM_USER,
                                          .bind = data[0] & 4,
                                          .same_user = no_user};
    memset(config.nonce, 5, sizeof config.nonce);
    msi_handshake_begin(&h, &config);
    for (;;) {
        msi_handshake_output(&h, &n);
        assert(n <= MSI_AUTH_HELLO);
        msi_handshake_sent(&h, n);
        uint8_t *to = msi_handshake_input(&h, &n);
        if (n > size - at) n = size - at;
        if (!n) break;
        memcpy(to, data + at, n);
        msi_handshake_received(&h, n);
        at += n;
    }
    assert(h.state != MSI_AUTH_DONE && at <= 1 + MSI_AUTH_HELLO + MSI_AUTH_PROOF);
    assert(msi_auth_code_text(h.code));
    return 0;
}
