/*
 * tls.h - TLS 1.3 on authenticated connections (MUSTER_TLS=1). The module mst_tls.so does it with OpenSSL; it
 * is loaded when it is first needed. This header is its interface, too: the module uses nothing else of
 * muster.
 *
 * TLS begins after the handshake of handshake.h, so strangers never reach OpenSSL. Its key is a PSK that is
 * derived from the secret and both nonces, or it uses certificates (MUSTER_TLS_CERT). At the end of the TLS
 * handshake each end sends a MAC with the PSK over its role and a value that only the two ends of this TLS
 * session know (exporter, RFC 8446 section 7.5). So with certificates, too, both ends are those that have
 * authenticated, and the client knows that its certificate is accepted.
 *
 * Neither end sends close_notify: muster's messages have lengths, and a connection that was cut off is an
 * error anyway.
 */
#ifndef MSI_AUTH_TLS_H
#define MSI_AUTH_TLS_H

#include "os/stream.h"

#include <muster/status.h>

struct msi_settings;
struct msi_tls_context; /* what the sessions of a process have in common; several threads may use it */

enum {
    MSI_TLS_VERSION = 1, /* of struct msi_tls_module */
    MSI_TLS_PSK = 32,
    MSI_TLS_WHY = 200,
};

/* After that many bytes in one direction, its key is changed. AES-128-GCM allows 22 times as many. */
#define MSI_TLS_REKEY (UINT64_C(16) << 30)

struct msi_tls_config {
    /* Files: a certificate with its chain, its private key, and the certificates of authorities. "": the key
     * comes from the secret. */
    const char *certificate, *key, *authority;
    const char *name; /* that certificates must have; "": the host that a client connects to */
    uint64_t rekey;   /* bytes */
};

struct msi_tls_begin {
    int fd; /* borrowed; connected and non-blocking */
    bool server;
    bool ahead;       /* read as many records as there are; see stream.h */
    const char *host; /* that a client connects to */
    const uint8_t *psk;
};

/* CLOSED: the connection was lost, with errno, or closed by the other end, with 0. */
enum msi_tls_state { MSI_TLS_DONE, MSI_TLS_READS, MSI_TLS_WRITES, MSI_TLS_CLOSED, MSI_TLS_FAILED };

/* No function blocks. why has MSI_TLS_WHY bytes and says what is wrong. */
struct msi_tls_module {
    unsigned version;
    /* NULL: a file cannot be used. */
    struct msi_tls_context *(*open)(const struct msi_tls_config *config, char *why);
    void (*close)(struct msi_tls_context *context);
    /* A session before its handshake; NULL: there is no memory. */
    struct msi_tls *(*begin)(struct msi_tls_context *context, const struct msi_tls_begin *begin);
    /* Call it again when the socket is readable or writable, until it is done or has failed. */
    enum msi_tls_state (*handshake)(struct msi_tls *tls, char *why);
};

/* The function that the module exports as "mst_tls_module"; NULL: it has another version. */
typedef const struct msi_tls_module *msi_tls_give(unsigned version);

/* Loads the module. path: MUSTER_BACKEND_PATH. */
mst_status msi_tls_load(const char *path, const struct msi_tls_module **module);

#endif
