/*
 * tls.c - the module of auth/tls.h: TLS 1.3. OpenSSL does the handshake; session.c moves the bytes after it,
 * with the traffic secrets that OpenSSL gives to its key log. A session does not need its context once it has
 * begun, and frees what OpenSSL needs when the handshake is over.
 */
#include "auth/tls.h"
#include "session.h"

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

enum { MAC = 32 };

static const char cipher_name[] = "TLS_AES_128_GCM_SHA256";
static const unsigned char cipher_number[] = {0x13, 0x01};
static const unsigned char identity[] = {'m', 'u', 's', 't', 'e', 'r'}; /* of the PSK */

struct msi_tls_context {
    SSL_CTX *ssl;
    bool certificates;
    uint64_t rekey;
    char name[256];
};

static BIO_METHOD *method; /* of all sessions */

static int bio_write(BIO *bio, const char *data, int n) {
    struct session *s = BIO_get_data(bio);
    if (!session_reserve(&s->out, (size_t)n)) return -1;
    memcpy(s->out.data + s->out.end, data, (size_t)n);
    s->out.end += (size_t)n;
    return n;
}

/* OpenSSL reads record by record, so that what follows the handshake stays in the socket. */
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

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A line of the key log: a label, the client's random number, and a secret. */
static void take_secret(const SSL *ssl, const char *line) {
    static const char *const labels[] = {"SERVER_TRAFFIC_SECRET_0 ", "CLIENT_TRAFFIC_SECRET_0 "};
    struct session *s = SSL_get_app_data(ssl);
    unsigned char secret[RECORD_SECRET];
    const char *hex = strrchr(line, ' ');
    for (int client = 0; client < 2; client++) {
        if (strncmp(line, labels[client], strlen(labels[client])) != 0) continue;
        bool writes = s->server != client;
        if (strlen(++hex) != 2 * sizeof secret) return;
        for (size_t i = 0; i < sizeof secret; i++)
            secret[i] = (unsigned char)(hex_digit(hex[2 * i]) << 4 | hex_digit(hex[2 * i + 1]));
        struct record_keys *keys = writes ? &s->writes : &s->reads;
        if (!record_set_keys(keys, secret, writes)) record_free_keys(keys);
        OPENSSL_cleanse(secret, sizeof secret);
    }
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
    SSL_CTX_set_keylog_callback(c->ssl, take_secret);
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

void session_close(struct msi_tls *tls) {
    struct session *s = (struct session *)tls;
    SSL_free(s->ssl);
    record_free_keys(&s->writes);
    record_free_keys(&s->reads);
    free(s->out.data);
    free(s->in.data);
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

static struct msi_tls *begin_session(struct msi_tls_context *c, const struct msi_tls_begin *begin) {
    struct session *s = calloc(1, sizeof *s);
    BIO *bio = s ? BIO_new(method) : NULL;
    if (bio) s->ssl = SSL_new(c->ssl);
    if (!bio || !s->ssl) {
        BIO_free(bio);
        free(s);
        return NULL;
    }
    s->tls.ops = &session_ops;
    s->rekey = c->rekey;
    s->fd = begin->fd;
    s->server = begin->server;
    memcpy(s->psk, begin->psk, sizeof s->psk);
    SSL_set_app_data(s->ssl, s);
    BIO_set_data(bio, s);
    BIO_set_init(bio, 1);
    SSL_set_bio(s->ssl, bio, bio);
    s->ahead = begin->ahead;
    const char *name = *c->name ? c->name : begin->server ? "" : begin->host;
    if (c->certificates && *name && !expect_name(s->ssl, name)) {
        session_close(&s->tls);
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

/* Exchanges MACs with the other end, over the new keys. */
static enum msi_tls_state confirm(struct session *s, char *why) {
    unsigned char mac[MAC], theirs[MAC];
    ssize_t n = MAC;
    snprintf(why, MSI_TLS_WHY, "OpenSSL has no keys for the connection");
    if (!s->writes.cipher || !s->reads.cipher || !make_mac(s, s->server, mac)) return MSI_TLS_FAILED;
    if (!s->told) n = session_ops.send(&s->tls, &(struct iovec){mac, MAC}, 1);
    if (n < 0) return errno == EAGAIN ? MSI_TLS_WRITES : MSI_TLS_CLOSED;
    s->told = true;
    n = session_ops.recv(&s->tls, &(struct iovec){theirs, MAC}, 1);
    if (n < 0 && errno == EAGAIN) return MSI_TLS_READS;
    if (n <= 0 && errno != EBADMSG) {
        if (n == 0) errno = 0;
        return MSI_TLS_CLOSED;
    }
    if (s->alert)
        snprintf(why, MSI_TLS_WHY, "the other end refuses it: %s", SSL_alert_desc_string_long(s->alert));
    else
        snprintf(why, MSI_TLS_WHY, "the other end of TLS is not the one that has authenticated");
    bool right = n == MAC && make_mac(s, !s->server, mac) && CRYPTO_memcmp(mac, theirs, MAC) == 0;
    return right ? MSI_TLS_DONE : MSI_TLS_FAILED;
}

static enum msi_tls_state handshake(struct msi_tls *tls, char *why) {
    struct session *s = (struct session *)tls;
    if (s->confirmed) return MSI_TLS_DONE;
    ERR_clear_error();
    int result = SSL_do_handshake(s->ssl);
    enum msi_tls_state state = result == 1 ? MSI_TLS_DONE : fail_handshake(s, result, why);
    if (state != MSI_TLS_CLOSED && !session_flush(s) &&
        state != MSI_TLS_FAILED) /* the other end may miss an alert */
        return errno == EAGAIN ? MSI_TLS_WRITES : MSI_TLS_CLOSED;
    if (state == MSI_TLS_DONE) state = confirm(s, why);
    if (state != MSI_TLS_DONE) return state;
    s->confirmed = true;
    OPENSSL_cleanse(s->psk, sizeof s->psk);
    SSL_free(s->ssl);
    s->ssl = NULL;
    return MSI_TLS_DONE;
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
