/* session.h - a TLS session of the module: its handshake is in tls.c, the bytes after it in session.c. */
#ifndef MST_TLS_SESSION_H
#define MST_TLS_SESSION_H

#include "auth/tls.h"
#include "record.h"

#include <openssl/ssl.h>

/* Bytes of an allocated buffer. */
struct bytes {
    unsigned char *data;  /* NULL: none */
    size_t size, at, end; /* the valid ones: from at to end */
};

struct session {
    struct msi_tls tls;
    SSL *ssl; /* until the handshake is over */
    int fd;
    bool server, ahead;
    bool told, confirmed;          /* in the handshake: has sent its MAC, has verified the other one */
    int error;                     /* errno of the last system call */
    int read_failed, write_failed; /* the errno to report from now on, or END; 0: none */
    unsigned char psk[MSI_TLS_PSK];
    struct record_keys writes, reads;
    int alert;                   /* that the other end has sent; 0: none */
    uint64_t rekey, since_rekey; /* bytes */
    size_t held;                 /* plaintext bytes in out that send has not counted */
    struct bytes out, in;        /* encrypted bytes */
    struct bytes plain;          /* bytes of a record that was larger than the caller's buffer; in in */
};

/* recv, send, peek and held: after the handshake. */
extern const struct msi_tls_ops session_ops;

void session_close(struct msi_tls *tls);
/* Makes room for n more bytes; false: there is no memory. */
bool session_reserve(struct bytes *b, size_t n);
/* Sends what is left of out; true: nothing is. */
bool session_flush(struct session *s);

#endif
