/*
 * handshake.h - mutual authentication of a new connection by challenge and response. Pure: bytes in, bytes
 * out, no allocation. connect.h and gate.h run it on sockets.
 *
 *   hello    client to server, 116 bytes: magic of 8 bytes, u8 version, u8 role, u8 flags, u8 0, both
 *            addresses as the client sees them, nonce of 32 bytes, 36 bytes about the connection (context)
 *   answer   104 bytes: u8 code, u8 version, u8 role, u8 flags, both addresses as the server sees them, nonce
 *            of 32 bytes, MAC; if the code is not 0, the code alone, and the connection ends
 *   proof    36 bytes: u8 code, three bytes 0, MAC
 *   verdict  2 bytes: u8 code, u8 detail; both 0: the connection is authenticated
 *
 * An address has 18 bytes: IPv6, or IPv4 mapped to it, and the port, both big endian. Each MAC is an
 * HMAC-SHA-256 with the secret of the job over a label for its direction and all bytes of the connection
 * before it. So it covers role, context, both nonces and the addresses: replayed, reflected and altered
 * messages are refused, and so are relayed ones, because a relay changes the addresses. The server proves
 * itself first.
 *
 * If an end has no secret, the connection needs the kernel's word that both ends belong to one user of one
 * host (same_user); then MACs are zeros.
 *
 * The flags say whether the sender has a secret (1), where it comes from (2 bits), and whether it uses TLS
 * (8), which then follows the verdict (tls.h).
 */
#ifndef MSI_AUTH_HANDSHAKE_H
#define MSI_AUTH_HANDSHAKE_H

#include "auth/secret.h"

enum {
    MSI_AUTH_PROTOCOL = 1,
    MSI_AUTH_ADDRESS = 18,
    MSI_AUTH_NONCE = 32,
    MSI_AUTH_MAC = 32,
    MSI_AUTH_CONTEXT_BYTES = 36,
    MSI_AUTH_HELLO = 12 + 2 * MSI_AUTH_ADDRESS + MSI_AUTH_NONCE + MSI_AUTH_CONTEXT_BYTES,
    MSI_AUTH_ANSWER = 4 + 2 * MSI_AUTH_ADDRESS + MSI_AUTH_NONCE + MSI_AUTH_MAC,
    MSI_AUTH_PROOF = 4 + MSI_AUTH_MAC,
    MSI_AUTH_VERDICT = 2,
};

/* The first byte of a hello. No dialect of the store begins with it. */
enum { MSI_AUTH_FIRST = 0xA5 };

/* What listens. */
enum msi_auth_role { MSI_ROLE_STORE = 1, MSI_ROLE_LINK, MSI_ROLE_CLOCK };

/* X(number, name, text). Why a connection is refused. */
#define MSI_AUTH_CODES(X)                                                                                    \
    X(0, OK, "accepted")                                                                                     \
    X(1, MALFORMED, "it does not speak this protocol")                                                       \
    X(2, VERSION, "it uses another version of the protocol")                                                 \
    X(3, ROLE, "it is another service")                                                                      \
    X(4, SECRET, "the secrets differ")                                                                       \
    X(5, NO_SECRET, "one of the two has no secret")                                                          \
    X(6, ADDRESSES, "the two see different addresses")                                                       \
    X(7, CONTEXT, "it does not expect this connection")                                                      \
    X(8, CLOSED, "it closed the connection")                                                                 \
    X(9, TLS, "only one of the two uses TLS")                                                                \
    X(10, TLS_FAILED, "TLS has failed")

#define MSI_AUTH_CODE_ID(number, name, text) MSI_AUTH_##name = (number),
enum msi_auth_code { MSI_AUTH_CODES(MSI_AUTH_CODE_ID) };
#undef MSI_AUTH_CODE_ID

/* The text of a code for messages; never NULL. */
const char *msi_auth_code_text(unsigned code);

struct msi_auth_addresses {
    uint8_t client[MSI_AUTH_ADDRESS], server[MSI_AUTH_ADDRESS];
};

struct msi_handshake_config {
    bool server;
    enum msi_auth_role role;
    const uint8_t *key; /* of the secret, MSI_SECRET_BYTES, borrowed; NULL: none */
    enum msi_secret_source source;
    bool bind; /* both ends must see the same addresses */
    bool tls;  /* TLS follows; both ends must have a secret and say so */
    struct msi_auth_addresses addresses;
    uint8_t nonce[MSI_AUTH_NONCE];           /* random */
    uint8_t context[MSI_AUTH_CONTEXT_BYTES]; /* of the client */
    /* Do both ends belong to this user of this host? Called at most once; NULL: no. */
    bool (*same_user)(void *argument);
    /* On the server, after the client was authenticated: the detail of the verdict; NULL: 0. */
    uint8_t (*judge)(void *argument, const uint8_t context[MSI_AUTH_CONTEXT_BYTES]);
    void *argument;
};

enum msi_handshake_state { MSI_AUTH_PENDING, MSI_AUTH_DONE, MSI_AUTH_REFUSED };

struct msi_handshake {
    struct msi_handshake_config config;
    enum msi_handshake_state state; /* REFUSED or DONE with output left: send it first */
    enum msi_auth_code code;        /* if it is refused … */
    uint8_t detail;                 /* … the detail of the verdict */
    bool by_peer;                   /* the other end has refused */
    bool keyless;                   /* accepted by same_user */
    bool peer_has_key, peer_tls;    /* as the other end says … */
    enum msi_secret_source peer_source;
    int step;
    size_t in_at, in_most, out_at, out_most;
    uint8_t hello[MSI_AUTH_HELLO], answer[MSI_AUTH_ANSWER], proof[MSI_AUTH_PROOF], verdict[MSI_AUTH_VERDICT];
};

void msi_handshake_begin(struct msi_handshake *handshake, const struct msi_handshake_config *config);

/* The bytes to send; *n 0: none. Then how many of them were sent. */
const uint8_t *msi_handshake_output(struct msi_handshake *handshake, size_t *n);
void msi_handshake_sent(struct msi_handshake *handshake, size_t n);

/* Where to put the bytes that it waits for, never more than it needs; *n 0: none. Then how many came. */
uint8_t *msi_handshake_input(struct msi_handshake *handshake, size_t *n);
void msi_handshake_received(struct msi_handshake *handshake, size_t n);

/* What a key is for: the bytes of one direction, or the PSK of TLS. */
enum msi_key_use { MSI_KEY_CLIENT, MSI_KEY_SERVER, MSI_KEY_TLS };

/* Derives a key of an authenticated connection; false: there is no secret. */
bool msi_handshake_key(const struct msi_handshake *handshake, enum msi_key_use use,
                       uint8_t out[MSI_SECRET_BYTES]);

#endif
