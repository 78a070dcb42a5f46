/*
 * sha256_pipe.c - for tests/tools/test_sha256.py: reads lines "hash HEX", "hmac KEY DATA" and "hkdf SALT
 * SECRET INFO LENGTH" with hexadecimal fields, "-" for an empty one, and writes each result as a line.
 */
#include "auth/sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 16 };

struct bytes {
    uint8_t data[MOST];
    size_t len;
};

static void read_field(struct bytes *to) {
    const char *hex = strtok(NULL, " \n");
    if (!hex) exit(2);
    to->len = strcmp(hex, "-") ? strlen(hex) / 2 : 0;
    if (to->len > MOST) exit(2);
    for (size_t i = 0; i < to->len; i++) {
        char digits[3] = {hex[2 * i], hex[2 * i + 1], 0};
        to->data[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
}

int main(void) {
    static char line[6 * MOST];
    static struct bytes a, b, c, out;
    while (fgets(line, sizeof line, stdin)) {
        const char *what = strtok(line, " ");
        read_field(&a);
        out.len = MSI_SHA256_BYTES;
        if (strcmp(what, "hash") == 0) {
            struct msi_sha256 hash;
            msi_sha256_begin(&hash);
            msi_sha256_add(&hash, a.data, a.len);
            msi_sha256_end(&hash, out.data);
        } else if (strcmp(what, "hmac") == 0) {
            struct msi_hmac hmac;
            read_field(&b);
            msi_hmac_begin(&hmac, a.data, a.len);
            msi_hmac_add(&hmac, b.data, b.len);
            msi_hmac_end(&hmac, out.data);
        } else {
            read_field(&b);
            read_field(&c);
            out.len = (size_t)atoi(strtok(NULL, " \n"));
            if (out.len > MSI_HKDF_MOST) exit(2);
            msi_hkdf(&(struct msi_hkdf_input){a.data, b.data, c.data, a.len, b.len, c.len}, out.data,
                     out.len);
        }
        for (size_t i = 0; i < out.len; i++) printf("%02x", out.data[i]);
        printf("\n");
    }
    return 0;
}
