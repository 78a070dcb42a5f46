/* handshake.c - see handshake.h. */
#include "auth/handshake.h"
#include "auth/sha256.h"

#include <string.h>

/* Offsets in hello and answer. */
enum {
    AT_VERSION = 8,
    AT_ROLE,
    AT_FLAGS,
    AT_ZERO,
    AT_ADDRESSES,
    AT_NONCE = AT_ADDRESSES + 2 * MSI_AUTH_ADDRESS,
    AT_CONTEXT = AT_NONCE + MSI_AUTH_NONCE,
};
enum {
    ANSWER_CODE,
    ANSWER_VERSION,
    ANSWER_ROLE,
    ANSWER_FLAGS,
    ANSWER_ADDRESSES,
    ANSWER_NONCE = ANSWER_ADDRESSES + 2 * MSI_AUTH_ADDRESS,
    ANSWER_MAC = ANSWER_NONCE + MSI_AUTH_NONCE,
};
enum { PROOF_CODE, PROOF_ZEROS, PROOF_MAC = 4 };

enum { HAS_KEY = 1, SOURCE_SHIFT = 1, SOURCE_MASK = 3, USES_TLS = 8, ALL_FLAGS = 15 };

enum { HELLO, ANSWER_FIRST, ANSWER_REST, PROOF, VERDICT, FINISHED };

static const uint8_t magic[AT_VERSION] = {MSI_AUTH_FIRST, 'm', 'u', 's', 't', 'e', 'r', '\n'};
static const char server_label[] = "muster handshake 1, server",
                  client_label[] = "muster handshake 1, client";

_Static_assert((int)AT_CONTEXT + (int)MSI_AUTH_CONTEXT_BYTES == (int)MSI_AUTH_HELLO, "the hello is complete");
_Static_assert((int)ANSWER_MAC + (int)MSI_AUTH_MAC == (int)MSI_AUTH_ANSWER, "the answer is complete");

const char *msi_auth_code_text(unsigned code) {
#define TEXT(number, name, text) [number] = (text),
    static const char *const texts[] = {MSI_AUTH_CODES(TEXT)};
    return code < sizeof texts / sizeof *texts ? texts[code] : "its answer is malformed";
}

static uint8_t flags_of(const struct msi_handshake_config *config) {
    unsigned tls = config->tls ? USES_TLS : 0;
    return (uint8_t)(config->key ? tls | HAS_KEY | (unsigned)config->source << SOURCE_SHIFT : tls);
}

static bool read_flags(struct msi_handshake *h, uint8_t flags) {
    unsigned source = (unsigned)flags >> SOURCE_SHIFT & SOURCE_MASK;
    h->peer_has_key = flags & HAS_KEY;
    h->peer_tls = flags & USES_TLS;
    h->peer_source = (enum msi_secret_source)source;
    return flags <= ALL_FLAGS && source <= MSI_SECRET_FROM_USER && (h->peer_has_key || !source);
}

/* The MAC over the hello and as much of the answer. */
static void make_mac(const struct msi_handshake *h, const char *label, size_t answer,
                     uint8_t out[MSI_AUTH_MAC]) {
    struct msi_hmac hmac;
    if (h->keyless) {
        memset(out, 0, MSI_AUTH_MAC);
        return;
    }
    msi_hmac_begin(&hmac, h->config.key, MSI_SECRET_BYTES);
    msi_hmac_add(&hmac, label, strlen(label) + 1);
    msi_hmac_add(&hmac, h->hello, sizeof h->hello);
    msi_hmac_add(&hmac, h->answer, answer);
    msi_hmac_end(&hmac, out);
}

static bool is_mac(const struct msi_handshake *h, const char *label, size_t answer, const uint8_t *mac) {
    uint8_t expected[MSI_AUTH_MAC];
    make_mac(h, label, answer, expected);
    return msi_equal_in_constant_time(expected, mac, MSI_AUTH_MAC);
}

static void send(struct msi_handshake *h, size_t n) {
    h->out_at = 0;
    h->out_most = n;
}

static void expect(struct msi_handshake *h, int step, size_t from, size_t to) {
    h->step = step;
    h->in_at = from;
    h->in_most = to;
}

static void finish(struct msi_handshake *h, enum msi_auth_code code) {
    h->state = code == MSI_AUTH_OK && !h->detail ? MSI_AUTH_DONE : MSI_AUTH_REFUSED;
    h->code = h->detail && code == MSI_AUTH_OK ? MSI_AUTH_CONTEXT : code;
    expect(h, FINISHED, 0, 0);
}

void msi_handshake_begin(struct msi_handshake *h, const struct msi_handshake_config *config) {
    *h = (struct msi_handshake){.config = *config};
    if (config->server) {
        expect(h, HELLO, 0, sizeof h->hello);
        return;
    }
    memcpy(h->hello, magic, sizeof magic);
    h->hello[AT_VERSION] = MSI_AUTH_PROTOCOL;
    h->hello[AT_ROLE] = (uint8_t)config->role;
    h->hello[AT_FLAGS] = flags_of(config);
    memcpy(h->hello + AT_ADDRESSES, &config->addresses, sizeof config->addresses);
    memcpy(h->hello + AT_NONCE, config->nonce, sizeof config->nonce);
    memcpy(h->hello + AT_CONTEXT, config->context, sizeof config->context);
    send(h, sizeof h->hello);
    expect(h, ANSWER_FIRST, 0, 1);
}

/* Without a secret at either end, the kernel must vouch. */
static bool check_keys(struct msi_handshake *h) {
    const struct msi_handshake_config *config = &h->config;
    if (config->key && h->peer_has_key) return true;
    if (config->tls) return false;
    return h->keyless = config->same_user && config->same_user(config->argument);
}

static enum msi_auth_code check_hello(struct msi_handshake *h) {
    const uint8_t *hello = h->hello;
    if (hello[AT_VERSION] != MSI_AUTH_PROTOCOL) return MSI_AUTH_VERSION;
    if (hello[AT_ROLE] != h->config.role) return MSI_AUTH_ROLE;
    if (hello[AT_ZERO] || !read_flags(h, hello[AT_FLAGS])) return MSI_AUTH_MALFORMED;
    if (h->peer_tls != h->config.tls) return MSI_AUTH_TLS;
    return check_keys(h) ? MSI_AUTH_OK : MSI_AUTH_NO_SECRET;
}

static void answer_hello(struct msi_handshake *h) {
    const struct msi_handshake_config *config = &h->config;
    enum msi_auth_code code = check_hello(h);
    h->answer[ANSWER_CODE] = (uint8_t)code;
    if (code != MSI_AUTH_OK) {
        send(h, 1);
        finish(h, code);
        return;
    }
    h->answer[ANSWER_VERSION] = MSI_AUTH_PROTOCOL;
    h->answer[ANSWER_ROLE] = (uint8_t)config->role;
    h->answer[ANSWER_FLAGS] = flags_of(config);
    memcpy(h->answer + ANSWER_ADDRESSES, &config->addresses, sizeof config->addresses);
    memcpy(h->answer + ANSWER_NONCE, config->nonce, sizeof config->nonce);
    make_mac(h, server_label, ANSWER_MAC, h->answer + ANSWER_MAC);
    send(h, sizeof h->answer);
    expect(h, PROOF, 0, sizeof h->proof);
}

static enum msi_auth_code check_answer(struct msi_handshake *h) {
    const struct msi_handshake_config *config = &h->config;
    const uint8_t *answer = h->answer;
    if (answer[ANSWER_VERSION] != MSI_AUTH_PROTOCOL || answer[ANSWER_ROLE] != config->role ||
        !read_flags(h, answer[ANSWER_FLAGS]))
        return MSI_AUTH_MALFORMED;
    if (h->peer_tls != config->tls) return MSI_AUTH_TLS;
    if (!check_keys(h)) return MSI_AUTH_NO_SECRET;
    if (!is_mac(h, server_label, ANSWER_MAC, answer + ANSWER_MAC)) return MSI_AUTH_SECRET;
    bool same = !memcmp(answer + ANSWER_ADDRESSES, &config->addresses, sizeof config->addresses);
    return same || !config->bind ? MSI_AUTH_OK : MSI_AUTH_ADDRESSES;
}

static void prove(struct msi_handshake *h) {
    enum msi_auth_code code = check_answer(h);
    h->proof[PROOF_CODE] = (uint8_t)code;
    if (code == MSI_AUTH_OK) make_mac(h, client_label, sizeof h->answer, h->proof + PROOF_MAC);
    send(h, sizeof h->proof);
    if (code == MSI_AUTH_OK)
        expect(h, VERDICT, 0, sizeof h->verdict);
    else
        finish(h, code);
}

static enum msi_auth_code check_proof(const struct msi_handshake *h) {
    static const uint8_t zeros[PROOF_MAC - PROOF_ZEROS];
    const struct msi_handshake_config *config = &h->config;
    if (memcmp(h->proof + PROOF_ZEROS, zeros, sizeof zeros) != 0) return MSI_AUTH_MALFORMED;
    if (!is_mac(h, client_label, sizeof h->answer, h->proof + PROOF_MAC)) return MSI_AUTH_SECRET;
    bool same = !memcmp(h->hello + AT_ADDRESSES, &config->addresses, sizeof config->addresses);
    return same || !config->bind ? MSI_AUTH_OK : MSI_AUTH_ADDRESSES;
}

static void decide(struct msi_handshake *h) {
    const struct msi_handshake_config *config = &h->config;
    if (h->proof[PROOF_CODE]) {
        h->by_peer = true;
        finish(h, (enum msi_auth_code)h->proof[PROOF_CODE]);
        return;
    }
    enum msi_auth_code code = check_proof(h);
    if (code == MSI_AUTH_OK && config->judge)
        h->detail = config->judge(config->argument, h->hello + AT_CONTEXT);
    h->verdict[0] = (uint8_t)code;
    h->verdict[1] = h->detail;
    send(h, sizeof h->verdict);
    finish(h, code);
}

static void accept_verdict(struct msi_handshake *h) {
    h->detail = h->verdict[1];
    h->by_peer = h->verdict[0] || h->detail;
    finish(h, (enum msi_auth_code)h->verdict[0]);
}

static void take_answer_code(struct msi_handshake *h) {
    if (h->answer[ANSWER_CODE] == MSI_AUTH_OK) {
        expect(h, ANSWER_REST, 1, sizeof h->answer);
        return;
    }
    h->by_peer = true;
    finish(h, (enum msi_auth_code)h->answer[ANSWER_CODE]);
}

const uint8_t *msi_handshake_output(struct msi_handshake *h, size_t *n) {
    uint8_t *from = h->config.server ? h->answer : h->hello;
    if (h->config.server && h->out_most == sizeof h->verdict) from = h->verdict;
    if (!h->config.server && h->out_most == sizeof h->proof) from = h->proof;
    *n = h->out_most - h->out_at;
    return from + h->out_at;
}

void msi_handshake_sent(struct msi_handshake *h, size_t n) {
    h->out_at += n;
}

uint8_t *msi_handshake_input(struct msi_handshake *h, size_t *n) {
    uint8_t *const to[] = {[HELLO] = h->hello, [ANSWER_FIRST] = h->answer, [ANSWER_REST] = h->answer,
                           [PROOF] = h->proof, [VERDICT] = h->verdict,     [FINISHED] = h->verdict};
    *n = h->in_most - h->in_at;
    return to[h->step] + h->in_at;
}

void msi_handshake_received(struct msi_handshake *h, size_t n) {
    static void (*const next[])(struct msi_handshake *) = {[HELLO] = answer_hello,
                                                           [ANSWER_FIRST] = take_answer_code,
                                                           [ANSWER_REST] = prove,
                                                           [PROOF] = decide,
                                                           [VERDICT] = accept_verdict};
    h->in_at += n;
    /* Other protocols are refused at once, without an answer. */
    if (h->step == HELLO && memcmp(h->hello, magic, h->in_at < sizeof magic ? h->in_at : sizeof magic) != 0)
        finish(h, MSI_AUTH_MALFORMED);
    if (h->step != FINISHED && h->in_at == h->in_most) next[h->step](h);
}

bool msi_handshake_key(const struct msi_handshake *h, enum msi_key_use use, uint8_t out[MSI_SECRET_BYTES]) {
    static const char *const labels[] = {[MSI_KEY_CLIENT] = "muster key, client",
                                         [MSI_KEY_SERVER] = "muster key, server",
                                         [MSI_KEY_TLS] = "muster key, TLS"};
    const char *label = labels[use];
    uint8_t nonces[2 * MSI_AUTH_NONCE];
    if (h->state != MSI_AUTH_DONE || h->keyless) return false;
    memcpy(nonces, h->hello + AT_NONCE, MSI_AUTH_NONCE);
    memcpy(nonces + MSI_AUTH_NONCE, h->answer + ANSWER_NONCE, MSI_AUTH_NONCE);
    struct msi_hkdf_input input = {.salt = nonces,
                                   .salt_len = sizeof nonces,
                                   .secret = h->config.key,
                                   .secret_len = MSI_SECRET_BYTES,
                                   .info = label,
                                   .info_len = strlen(label)};
    msi_hkdf(&input, out, MSI_SECRET_BYTES);
    return true;
}
