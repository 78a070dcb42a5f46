/* secret.c - see secret.h. */
#include "run/secret.h"

#include "auth/secret.h"
#include "auth/sha256.h"
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_text(const uint8_t key[MSI_SECRET_BYTES], char text[RUN_SECRET_TEXT]) {
    for (int i = 0; i < MSI_SECRET_BYTES; i++) snprintf(text + 2 * (size_t)i, 3, "%02x", key[i]);
}

static bool read_text(const char text[RUN_SECRET_TEXT], uint8_t key[MSI_SECRET_BYTES]) {
    unsigned byte;
    if (strspn(text, "0123456789abcdef") != RUN_SECRET_TEXT - 1) return false;
    for (size_t i = 0; i < MSI_SECRET_BYTES; i++) {
        sscanf(text + 2 * i, "%2x", &byte);
        key[i] = (uint8_t)byte;
    }
    return true;
}

static mst_status receive(char text[RUN_SECRET_TEXT], uint8_t key[MSI_SECRET_BYTES]) {
    size_t len = 0;
    while (len < RUN_SECRET_TEXT - 1) {
        ssize_t n = read(RUN_SECRET_FD, text + len, RUN_SECRET_TEXT - 1 - len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        len += (size_t)n;
    }
    text[len] = '\0';
    close(RUN_SECRET_FD);
    return read_text(text, key)
               ? MST_OK
               : msi_fail(MST_ERR_CONFIG, NULL, "the launcher has not sent the job's secret");
}

mst_status run_secret_open(bool agent, char text[RUN_SECRET_TEXT]) {
    const char *file = getenv("MUSTER_SECRET_FILE");
    uint8_t key[MSI_SECRET_BYTES];
    char where[48];
    int fd;
    text[0] = '\0';
    if (file && *file) return MST_OK;
    mst_status st = agent ? receive(text, key) : msi_secret_random(key, sizeof key);
    if (st == MST_OK) st = msi_secret_share(key, &fd);
    if (st == MST_OK) {
        write_text(key, text);
        snprintf(where, sizeof where, "/proc/%d/fd/%d", (int)getpid(), fd);
        setenv(MSI_SECRET_VARIABLE, where, 1);
    }
    msi_wipe(key, sizeof key);
    return st;
}
