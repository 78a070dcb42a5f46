/*
 * test_tls_openssl.c - a TLS session of mst_tls.so with OpenSSL's own records at the other end: both say the
 * same about the bytes, the changes of keys and the end of the stream.
 */
#include "harness.h"

#include "auth/tls.h"

#if __has_include(<openssl/ssl.h>)

#include <errno.h>
#include <limits.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

enum { BIG = 3 << 20, MAC = 32 };

static const struct msi_tls_module *module;
static unsigned char psk[MSI_TLS_PSK] = {1, 2, 3};
static const unsigned char name[] = "muster";
static uint8_t in[BIG], out[BIG];

struct pair {
    struct msi_tls_context *context;
    struct msi_stream ours;
    SSL_CTX *ssl_context;
    SSL *ssl;
    int fds[2];  /* ours, OpenSSL's */
    int updates; /* of keys that OpenSSL was told of */
};

static SSL_SESSION *make_session(SSL *ssl) {
    static const unsigned char aes_128_gcm[] = {0x13, 0x01};
    SSL_SESSION *made = SSL_SESSION_new();
    assert_true(SSL_SESSION_set1_master_key(made, psk, sizeof psk) &&
                SSL_SESSION_set1_id_context(made, name, sizeof name - 1) &&
                SSL_SESSION_set_cipher(made, SSL_CIPHER_find(ssl, aes_128_gcm)) &&
                SSL_SESSION_set_protocol_version(made, TLS1_3_VERSION));
    return made;
}

static int use(SSL *ssl, const EVP_MD *digest, const unsigned char **id, size_t *n, SSL_SESSION **session) {
    (void)digest;
    *id = name;
    *n = sizeof name - 1;
    *session = make_session(ssl);
    return 1;
}

static int find(SSL *ssl, const unsigned char *id, size_t n, SSL_SESSION **session) {
    *session = n == sizeof name - 1 && !memcmp(id, name, n) ? make_session(ssl) : NULL;
    return 1;
}

/* The MAC that each end sends first: see auth/tls.h. */
static void make_mac(SSL *ssl, bool server, unsigned char mac[MAC]) {
    static const char label[] = "EXPORTER-muster";
    unsigned char said[MAC + 1] = {server};
    unsigned n = MAC;
    assert_int_equal(SSL_export_keying_material(ssl, said + 1, MAC, label, strlen(label), NULL, 0, 0), 1);
    assert_non_null(HMAC(EVP_sha256(), psk, sizeof psk, said, sizeof said, mac, &n));
}

static void count_updates(int sent, int version, int type, const void *message, size_t n, SSL *ssl,
                          void *pair) {
    (void)version, (void)ssl;
    bool update = type == SSL3_RT_HANDSHAKE && n && *(const uint8_t *)message == SSL3_MT_KEY_UPDATE;
    ((struct pair *)pair)->updates += update && !sent;
}

static void open_pair(struct pair *pair, bool server, bool ahead) {
    const struct msi_tls_config config = {
        .certificate = "", .key = "", .authority = "", .name = "", .rekey = ahead ? 1 << 20 : UINT64_MAX};
    char why[MSI_TLS_WHY];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair->fds), 0);
    pair->context = module->open(&config, why);
    struct msi_tls_begin how = {
        .fd = pair->fds[0], .server = server, .ahead = ahead, .host = "localhost", .psk = psk};
    pair->ours = (struct msi_stream){pair->fds[0], module->begin(pair->context, &how)};
    pair->ssl_context = SSL_CTX_new(TLS_method());
    assert_true(SSL_CTX_set_min_proto_version(pair->ssl_context, TLS1_3_VERSION) &&
                SSL_CTX_set_ciphersuites(pair->ssl_context, "TLS_AES_128_GCM_SHA256") &&
                SSL_CTX_set_num_tickets(pair->ssl_context, 0) &&
                SSL_CTX_set_session_id_context(pair->ssl_context, name, sizeof name - 1));
    SSL_CTX_set_psk_use_session_callback(pair->ssl_context, use);
    SSL_CTX_set_psk_find_session_callback(pair->ssl_context, find);
    pair->ssl = SSL_new(pair->ssl_context);
    SSL_set_fd(pair->ssl, pair->fds[1]);
    SSL_set_msg_callback(pair->ssl, count_updates);
    SSL_set_msg_callback_arg(pair->ssl, pair);
    pair->updates = 0;
    if (server)
        SSL_set_connect_state(pair->ssl);
    else
        SSL_set_accept_state(pair->ssl);
}

static void shake_hands(struct pair *pair, bool server) {
    enum msi_tls_state state = MSI_TLS_READS;
    char why[MSI_TLS_WHY] = "";
    unsigned char mac[MAC], theirs[MAC];
    bool told = false;
    int got = 0;
    for (int i = 0; i < 20 && (state != MSI_TLS_DONE || got != MAC); i++) {
        if (state == MSI_TLS_READS) state = module->handshake(pair->ours.tls, why);
        if (SSL_do_handshake(pair->ssl) != 1) continue;
        make_mac(pair->ssl, !server, mac);
        if (!told) assert_int_equal(SSL_write(pair->ssl, mac, MAC), MAC);
        told = true;
        if (got != MAC) got = SSL_read(pair->ssl, theirs, MAC);
    }
    if (state != MSI_TLS_DONE) fail_msg("%s", why);
    make_mac(pair->ssl, server, mac);
    assert_memory_equal(mac, theirs, MAC);
}

static void close_pair(struct pair *pair) {
    msi_stream_close(&pair->ours);
    module->close(pair->context);
    SSL_free(pair->ssl);
    SSL_CTX_free(pair->ssl_context);
    close(pair->fds[1]);
}

/* Parts of uneven sizes. */
static void we_send(struct pair *pair) {
    size_t sent = 0, got = 0, k;
    while (got < BIG) {
        struct iovec parts[3];
        size_t n = 0, at = sent, sizes[3] = {13, 5000, 700000};
        for (; n < 3 && at < BIG; n++) {
            parts[n] = (struct iovec){out + at, BIG - at < sizes[n] ? BIG - at : sizes[n]};
            at += parts[n].iov_len;
        }
        ssize_t bytes = n ? msi_stream_send_vector(&pair->ours, parts, n) : 0;
        assert_true(bytes >= 0 || errno == EAGAIN);
        if (bytes > 0) sent += (size_t)bytes;
        while (got < BIG && SSL_read_ex(pair->ssl, in + got, BIG - got, &k) == 1) got += k;
        assert_true(got == BIG || SSL_get_error(pair->ssl, 0) == SSL_ERROR_WANT_READ);
    }
    assert_memory_equal(in, out, BIG);
}

/* OpenSSL changes its keys from time to time, and asks for a change of ours. */
static void openssl_sends(struct pair *pair) {
    size_t sent = 0, got = 0;
    memset(in, 0, sizeof in);
    for (int i = 0; got < BIG; i++) {
        size_t size = i % 3 == 0 ? 1 : i % 3 == 1 ? 3000 : 50000, k;
        if (i % 10 == 5 && sent < BIG)
            SSL_key_update(pair->ssl, i % 20 == 5 ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED);
        if (size > BIG - sent) size = BIG - sent;
        if (size && SSL_write_ex(pair->ssl, out + sent, size, &k) == 1) sent += k;
        for (ssize_t n = 1; n > 0 && got < BIG;) {
            n = msi_stream_recv(&pair->ours, in + got, BIG - got < 20000 ? BIG - got : 20000);
            assert_true(n > 0 || (n < 0 && errno == EAGAIN));
            if (n > 0) got += (size_t)n;
        }
    }
    assert_memory_equal(in, out, BIG);
}

static void both_directions(bool server, bool ahead) {
    struct pair pair;
    char byte;
    open_pair(&pair, server, ahead);
    SSL_set_mode(pair.ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    shake_hands(&pair, server);
    we_send(&pair);
    openssl_sends(&pair);
    int before = pair.updates;
    we_send(&pair);
    assert_int_equal(before, ahead ? 2 : 0);                        /* one after each MiB */
    assert_in_range(pair.updates - before, ahead ? 3 : 1, INT_MAX); /* one because OpenSSL has asked for it */
    SSL_shutdown(pair.ssl);
    assert_int_equal(msi_stream_recv(&pair.ours, &byte, 1), 0);
    close_pair(&pair);
}

static void with_openssl(void **state) {
    (void)state;
    for (size_t i = 0; i < BIG; i++) out[i] = (uint8_t)(i * 7 + i / 251);
    for (int i = 0; i < 4; i++) both_directions(i & 1, i & 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(with_openssl)};
    if (msi_tls_load(getenv("MUSTER_BACKEND_PATH"), &module) != MST_OK) {
        printf("skip: %s\n", mst_last_error()->message);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
    printf("skip: libssl-dev is not installed\n");
    return 77;
}

#endif
