/*
 * tls.c - the module of auth/tls.h: TLS 1.3 with OpenSSL.
 *
 * A session encrypts into a buffer of its own, up to BATCH bytes at a time, and sends that with one system
 * call. Bytes count as sent when the buffer is empty again. OpenSSL's own socket functions are not used: they
 * need a call for each record, and raise SIGPIPE. A session does not need its context once it has begun.
 */
#include "auth/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    RECORD = SSL3_RT_MAX_PLAIN_LENGTH,
    BATCH = 8 * RECORD,        /* plaintext bytes that are sent with one call */
    AHEAD = 8 * RECORD,        /* bytes to read with one call */
    GATHER_BELOW = RECORD / 2, /* smaller parts are copied, so that several share a record */
    OUT_LEAST = RECORD + 1024,
    MAC = 32,
};

static const char cipher_name[] = "TLS_AES_128_GCM_SHA256";
static const unsigned char cipher_number[] = {0x13, 0x01};
static const unsigned char identity[] = {'m', 'u', 's', 't', 'e', 'r'}; /* of the PSK */

struct msi_tls_context {
    SSL_CTX *ssl;
    bool certificates;
    uint64_t rekey;
    char name[256];
};

struct session {
    struct msi_tls tls;
    SSL *ssl;
    int fd;
    bool server, told, confirmed;  /* in the handshake: has sent its MAC, has verified the other one */
    int error;                     /* errno of the last system call */
    int read_failed, write_failed; /* the errno to report from now on, or END; 0: none */
    unsigned char psk[MSI_TLS_PSK];
    uint64_t rekey, since_rekey; /* bytes */
    size_t held;                 /* plaintext bytes in out that send has not counted */
    unsigned char *out;          /* encrypted bytes; NULL: none */
    size_t out_at, out_end;      /* what is left to send of out */
    size_t out_size;
    unsigned char *gathered; /* RECORD bytes; NULL: not needed yet */
};

enum { END = -1 }; /* of the stream */

static BIO_METHOD *method; /* of all sessions */

static void free_out(struct session *s) {
    free(s->out);
    s->out = NULL;
    s->out_size = 0;
}

/* Sends what is left of out; true: nothing is. Links keep the buffer; the store has many idle connections. */
static bool flush(struct session *s) {
    while (s->out_at < s->out_end) {
        ssize_t n = send(s->fd, s->out + s->out_at, s->out_end - s->out_at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        s->out_at += (size_t)n;
    }
    s->out_at = s->out_end = 0;
    if (s->out && !SSL_get_read_ahead(s->ssl)) free_out(s);
    return true;
}

static int bio_write(BIO *bio, const char *data, int n) {
    struct session *s = BIO_get_data(bio);
    if ((size_t)n > s->out_size - s->out_end) {
        size_t size = 2 * s->out_size + (size_t)n + OUT_LEAST;
        unsigned char *more = realloc(s->out, size);
        if (!more) return -1;
        s->out = more;
        s->out_size = size;
    }
    memcpy(s->out + s->out_end, data, (size_t)n);
    s->out_end += (size_t)n;
    return n;
}

static int bio_read(BIO *bio, char *data, int n) {
    struct session *s = BIO_get_data(bio);
    ssize_t got;
    BIO_clear_retry_flags(bio);
    do got = recv(s->fd, data, (size_t)n, 0);
    while (got < 0 && errno == EINTR);
    s->error = got < 0 ? errno : 0;
    if (s->error == EAGAIN) BIO_set_retry_read(bio);
    return (int)got;
}

static long bio_control(BIO *bio, int what, long number, void *pointer) {
    (void)bio;
    (void)number;
    (void)pointer;
    return what == BIO_CTRL_FLUSH;
}

/* The PSK of a session as OpenSSL wants it: the session to resume. */
static SSL_SESSION *make_psk(SSL *ssl) {
    const struct session *s = SSL_get_app_data(ssl);
    SSL_SESSION *made = SSL_SESSION_new();
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, cipher_number);
    if (made && cipher && SSL_SESSION_set1_master_key(made, s->psk, sizeof s->psk) &&
        SSL_SESSION_set1_id_context(made, identity, sizeof identity) &&
        SSL_SESSION_set_cipher(made, cipher) && SSL_SESSION_set_protocol_version(made, TLS1_3_VERSION))
        return made;
    SSL_SESSION_free(made);
    return NULL;
}

static int use_psk(SSL *ssl, const EVP_MD *digest, const unsigned char **name, size_t *n,
                   SSL_SESSION **session) {
    (void)digest;
    *name = identity;
    *n = sizeof identity;
    *session = make_psk(ssl);
    return *session != NULL;
}

static int find_psk(SSL *ssl, const unsigned char *name, size_t n, SSL_SESSION **session) {
    *session = n == sizeof identity && !memcmp(name, identity, n) ? make_psk(ssl) : NULL;
    return 1; /* without a session the handshake fails, since there is no certificate */
}

/* Writes the first of OpenSSL's errors. */
static void explain(char *why, const char *doing) {
    unsigned long error = ERR_get_error();
    const char *reason = error ? ERR_reason_error_string(error) : NULL;
    snprintf(why, MSI_TLS_WHY, "%s%s%s", doing, *doing ? ": " : "", reason ? reason : "no memory");
    ERR_clear_error();
}

static bool use_certificates(struct msi_tls_context *c, const struct msi_tls_config *config, char *why) {
    const char *wrong = NULL;
    if (SSL_CTX_use_certificate_chain_file(c->ssl, config->certificate) != 1)
        wrong = "MUSTER_TLS_CERT cannot be used";
    else if (SSL_CTX_use_PrivateKey_file(c->ssl, config->key, SSL_FILETYPE_PEM) != 1)
        wrong = "MUSTER_TLS_KEY cannot be used";
    else if (SSL_CTX_load_verify_file(c->ssl, config->authority) != 1)
        wrong = "MUSTER_TLS_CA cannot be used";
    if (wrong) {
        explain(why, wrong);
        return false;
    }
    SSL_CTX_set_verify(c->ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    c->certificates = true;
    return true;
}

static void close_context(struct msi_tls_context *c) {
    if (!c) return;
    SSL_CTX_free(c->ssl);
    free(c);
}

static bool set_up(struct msi_tls_context *c, const struct msi_tls_config *config, char *why) {
    c->ssl = SSL_CTX_new(TLS_method());
    if (!c->ssl || !SSL_CTX_set_min_proto_version(c->ssl, TLS1_3_VERSION) ||
        !SSL_CTX_set_ciphersuites(c->ssl, cipher_name) || !SSL_CTX_set_num_tickets(c->ssl, 0) ||
        !SSL_CTX_set_session_id_context(c->ssl, identity, sizeof identity)) {
        explain(why, "OpenSSL cannot be used");
        return false;
    }
    SSL_CTX_set_session_cache_mode(c->ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(c->ssl, SSL_MODE_RELEASE_BUFFERS);
    if (*config->certificate) return use_certificates(c, config, why);
    SSL_CTX_set_psk_use_session_callback(c->ssl, use_psk);
    SSL_CTX_set_psk_find_session_callback(c->ssl, find_psk);
    SSL_CTX_set_verify(c->ssl, SSL_VERIFY_PEER, NULL); /* no authority is trusted: only the PSK counts */
    return true;
}

static struct msi_tls_context *open_context(const struct msi_tls_config *config, char *why) {
    struct msi_tls_context *c = calloc(1, sizeof *c);
    snprintf(why, MSI_TLS_WHY, "no memory");
    if (!c) return NULL;
    c->rekey = config->rekey;
    snprintf(c->name, sizeof c->name, "%s", config->name);
    if (set_up(c, config, why)) return c;
    close_context(c);
    return NULL;
}

static void close_session(struct msi_tls *tls) {
    struct session *s = (struct session *)tls;
    SSL_free(s->ssl);
    free_out(s);
    free(s->gathered);
    OPENSSL_cleanse(s->psk, sizeof s->psk);
    free(s);
}

/* Which name the certificate of the other end must have. */
static bool expect_name(SSL *ssl, const char *name) {
    unsigned char address[sizeof(struct in6_addr)];
    X509_VERIFY_PARAM *expected = SSL_get0_param(ssl);
    bool numeric = inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
    return (numeric ? X509_VERIFY_PARAM_set1_ip_asc(expected, name)
                    : X509_VERIFY_PARAM_set1_host(expected, name, 0)) == 1;
}

static ssize_t receive(struct msi_tls *tls, const struct iovec *parts, size_t n);
static ssize_t transmit(struct msi_tls *tls, const struct iovec *parts, size_t n);
static ssize_t peek(struct msi_tls *tls, void *data, size_t n);
static size_t held(const struct msi_tls *tls);

static const struct msi_tls_ops ops = {
    .recv = receive, .send = transmit, .peek = peek, .held = held, .close = close_session};

static struct msi_tls *begin_session(struct msi_tls_context *c, const struct msi_tls_begin *begin) {
    struct session *s = calloc(1, sizeof *s);
    BIO *bio = s ? BIO_new(method) : NULL;
    if (bio) s->ssl = SSL_new(c->ssl);
    if (!bio || !s->ssl) {
        BIO_free(bio);
        free(s);
        return NULL;
    }
    s->tls.ops = &ops;
    s->rekey = c->rekey;
    s->fd = begin->fd;
    s->server = begin->server;
    memcpy(s->psk, begin->psk, sizeof s->psk);
    SSL_set_app_data(s->ssl, s);
    BIO_set_data(bio, s);
    BIO_set_init(bio, 1);
    SSL_set_bio(s->ssl, bio, bio);
    if (begin->ahead) {
        SSL_clear_mode(s->ssl, SSL_MODE_RELEASE_BUFFERS); /* the store has many idle connections, links few */
        SSL_set_read_ahead(s->ssl, 1);
        SSL_set_default_read_buffer_len(s->ssl, AHEAD);
    }
    const char *name = *c->name ? c->name : begin->server ? "" : begin->host;
    if (c->certificates && *name && !expect_name(s->ssl, name)) {
        close_session(&s->tls);
        return NULL;
    }
    if (begin->server)
        SSL_set_accept_state(s->ssl);
    else
        SSL_set_connect_state(s->ssl);
    return &s->tls;
}

/* What an operation of OpenSSL that has not succeeded waits for. */
static enum msi_tls_state fail_handshake(struct session *s, int result, char *why) {
    int kind = SSL_get_error(s->ssl, result);
    if (kind == SSL_ERROR_WANT_READ) return MSI_TLS_READS;
    if (kind == SSL_ERROR_ZERO_RETURN || kind == SSL_ERROR_SYSCALL) {
        errno = s->error;
        return MSI_TLS_CLOSED;
    }
    long verdict = SSL_get_verify_result(s->ssl);
    if (verdict != X509_V_OK)
        snprintf(why, MSI_TLS_WHY, "the certificate of the other end is not accepted: %s",
                 X509_verify_cert_error_string(verdict));
    else
        explain(why, "");
    ERR_clear_error();
    return MSI_TLS_FAILED;
}

/* The MAC of one end over this TLS session. */
static bool make_mac(const struct session *s, bool server, unsigned char mac[MAC]) {
    static const char label[] = "EXPORTER-muster";
    unsigned char said[MAC + 1] = {server};
    unsigned n = 0;
    return SSL_export_keying_material(s->ssl, said + 1, MAC, label, strlen(label), NULL, 0, 0) == 1 &&
           HMAC(EVP_sha256(), s->psk, sizeof s->psk, said, sizeof said, mac, &n) && n == MAC;
}

/* Sends the MAC of this end, and verifies that of the other; 1: both are done. */
static int confirm(struct session *s, bool *wrong) {
    unsigned char mac[MAC], theirs[MAC];
    if (!make_mac(s, s->server, mac)) return 0;
    int result = s->told ? 1 : SSL_write(s->ssl, mac, MAC);
    if (result <= 0) return result;
    s->told = true;
    result = SSL_read(s->ssl, theirs, MAC);
    if (result <= 0) return result;
    *wrong = result != MAC || !make_mac(s, !s->server, mac) || CRYPTO_memcmp(mac, theirs, MAC) != 0;
    s->confirmed = !*wrong;
    return !*wrong;
}

static enum msi_tls_state handshake(struct msi_tls *tls, char *why) {
    struct session *s = (struct session *)tls;
    bool wrong = false;
    ERR_clear_error();
    int result = SSL_do_handshake(s->ssl);
    if (result == 1 && !s->confirmed) result = confirm(s, &wrong);
    enum msi_tls_state state = MSI_TLS_DONE;
    if (wrong) {
        snprintf(why, MSI_TLS_WHY, "the other end of TLS is not the one that has authenticated");
        state = MSI_TLS_FAILED;
    } else if (result != 1) {
        state = fail_handshake(s, result, why);
    }
    if (state != MSI_TLS_CLOSED && !flush(s) && state != MSI_TLS_FAILED) /* the other end may miss an alert */
        state = errno == EAGAIN ? MSI_TLS_WRITES : MSI_TLS_CLOSED;
    if (state == MSI_TLS_DONE) OPENSSL_cleanse(s->psk, sizeof s->psk);
    return state;
}

/* After a read without success: what later reads report. The kernel reports an error of a socket once. */
static void note_failure(struct session *s, int result) {
    int kind = SSL_get_error(s->ssl, result);
    if (kind == SSL_ERROR_ZERO_RETURN || (kind == SSL_ERROR_SYSCALL && !s->error))
        s->read_failed = END;
    else if (kind == SSL_ERROR_SYSCALL)
        s->read_failed = s->error;
    else if (kind != SSL_ERROR_WANT_READ)
        s->read_failed = EBADMSG; /* somebody has altered the bytes */
    ERR_clear_error();
}

static ssize_t report(const struct session *s) {
    errno = s->read_failed ? s->read_failed : EAGAIN;
    return s->read_failed == END ? 0 : -1;
}

static ssize_t receive(struct msi_tls *tls, const struct iovec *parts, size_t n) {
    struct session *s = (struct session *)tls;
    bool ahead = SSL_get_read_ahead(s->ssl);
    ssize_t got = 0;
    if (s->read_failed) return report(s);
    ERR_clear_error();
    for (size_t i = 0; i < n; i++) {
        size_t done = 0;
        while (done < parts[i].iov_len) {
            size_t room = parts[i].iov_len - done, k;
            /* Else the rest of a record would be left, which poll does not report. */
            if (got && !ahead && room < RECORD) return got;
            int result = SSL_read_ex(s->ssl, (char *)parts[i].iov_base + done, room, &k);
            if (result != 1) {
                note_failure(s, result);
                return got ? got : report(s);
            }
            done += k;
            got += (ssize_t)k;
        }
    }
    return got;
}

static ssize_t peek(struct msi_tls *tls, void *data, size_t n) {
    struct session *s = (struct session *)tls;
    size_t k;
    if (s->read_failed) return report(s);
    ERR_clear_error();
    int result = SSL_peek_ex(s->ssl, data, n, &k);
    if (result == 1) return (ssize_t)k;
    note_failure(s, result);
    return report(s);
}

/* Where the next bytes to send are. */
struct place {
    const struct iovec *parts;
    size_t n, i, done; /* the part, and how much of it is sent */
};

static void skip(struct place *at, size_t bytes) {
    while (at->i < at->n && bytes >= at->parts[at->i].iov_len - at->done) {
        bytes -= at->parts[at->i++].iov_len - at->done;
        at->done = 0;
    }
    at->done += bytes;
}

/* The plaintext of the next record: a piece of a large part, or several small parts, copied. NULL: there is
 * no memory. */
static const void *next_record(struct session *s, const struct place *from, size_t *len) {
    struct place at = *from;
    const struct iovec *part = &at.parts[at.i];
    if (part->iov_len - at.done >= GATHER_BELOW || at.i + 1 == at.n) {
        *len = part->iov_len - at.done < RECORD ? part->iov_len - at.done : RECORD;
        return (const char *)part->iov_base + at.done;
    }
    if (!s->gathered) s->gathered = malloc(RECORD);
    if (!s->gathered) return NULL;
    for (*len = 0; *len < RECORD && at.i < at.n;) {
        size_t k = at.parts[at.i].iov_len - at.done;
        if (k > RECORD - *len) k = RECORD - *len;
        memcpy(s->gathered + *len, (const char *)at.parts[at.i].iov_base + at.done, k);
        *len += k;
        skip(&at, k);
    }
    return s->gathered;
}

/* Encrypts up to BATCH bytes; false: OpenSSL has failed. */
static bool encrypt(struct session *s, struct place *at) {
    if (s->since_rekey >= s->rekey) {
        if (!SSL_key_update(s->ssl, SSL_KEY_UPDATE_NOT_REQUESTED)) return false;
        s->since_rekey = 0;
    }
    while (at->i < at->n && s->held + RECORD <= BATCH) {
        size_t len, written;
        const void *data = next_record(s, at, &len);
        if (!data || (len && (SSL_write_ex(s->ssl, data, len, &written) != 1 || written != len)))
            return false;
        skip(at, len);
        s->held += len;
        s->since_rekey += len;
    }
    return true;
}

static ssize_t transmit(struct msi_tls *tls, const struct iovec *parts, size_t n) {
    struct session *s = (struct session *)tls;
    struct place at = {.parts = parts, .n = n};
    ssize_t sent = 0;
    ERR_clear_error();
    skip(&at, s->held);                                 /* these were encrypted before */
    if (at.i == n && at.done) s->write_failed = EPROTO; /* they are not sent again: rule 1 of stream.h */
    while (!s->write_failed) {
        if (!flush(s)) {
            if (errno == EAGAIN) return sent ? sent : -1;
            s->write_failed = errno;
            break;
        }
        sent += (ssize_t)s->held;
        s->held = 0;
        if (at.i == n) return sent;
        if (!encrypt(s, &at)) s->write_failed = EPROTO;
    }
    ERR_clear_error();
    errno = s->write_failed;
    return sent ? sent : -1;
}

static size_t held(const struct msi_tls *tls) {
    return ((const struct session *)tls)->held;
}

static const struct msi_tls_module module = {.version = MSI_TLS_VERSION,
                                             .open = open_context,
                                             .close = close_context,
                                             .begin = begin_session,
                                             .handshake = handshake};

/* Threads of muster may use OpenSSL until the process has ended. */
static void initialize(void) {
    if (!OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL)) return;
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "muster");
    if (!method) return;
    BIO_meth_set_write(method, bio_write);
    BIO_meth_set_read(method, bio_read);
    BIO_meth_set_ctrl(method, bio_control);
}

__attribute__((visibility("default"))) msi_tls_give mst_tls_module;

const struct msi_tls_module *mst_tls_module(unsigned version) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, initialize);
    return version == MSI_TLS_VERSION && method ? &module : NULL;
}
