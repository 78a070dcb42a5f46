/* test_handshake.c - the handshake of two ends in memory: good runs, and every alteration is refused. */
#include "harness.h"

#include "auth/handshake.h"
#include "auth/sha256.h"

#include <muster/status.h>

/* The messages of a connection, in order. */
enum { HELLO, ANSWER, PROOF, VERDICT, MESSAGES };
static const size_t sizes[MESSAGES] = {MSI_AUTH_HELLO, MSI_AUTH_ANSWER, MSI_AUTH_PROOF, MSI_AUTH_VERDICT};

static const uint8_t secret[MSI_SECRET_BYTES] = "a secret of 32 bytes, more or le";
static const uint8_t other_secret[MSI_SECRET_BYTES] = "another secret of 32 bytes, more";

static int users_asked;
static bool same_user;

static bool ask_user(void *argument) {
    (void)argument;
    users_asked++;
    return same_user;
}

static uint8_t judge(void *argument, const uint8_t context[MSI_AUTH_CONTEXT_BYTES]) {
    (void)argument;
    return context[0] == 'c' ? 0 : 9;
}

static struct msi_handshake_config config_of(bool server) {
    static uint8_t drawn;
    struct msi_handshake_config config = {.server = server,
                                          .role = MSI_ROLE_LINK,
                                          .key = secret,
                                          .source = MSI_SECRET_FROM_USER,
                                          .bind = true,
                                          .context = "c",
                                          .same_user = ask_user,
                                          .judge = server ? judge : NULL};
    memset(&config.addresses, 7, sizeof config.addresses);
    memset(config.nonce, ++drawn, sizeof config.nonce);
    return config;
}

struct pair {
    struct msi_handshake client, server;
    uint8_t messages[MESSAGES][MSI_AUTH_HELLO]; /* as they were received */
    size_t lengths[MESSAGES];
};

static struct pair begin(void) {
    struct pair pair = {0};
    struct msi_handshake_config client = config_of(false), server = config_of(true);
    users_asked = 0;
    same_user = false;
    msi_handshake_begin(&pair.client, &client);
    msi_handshake_begin(&pair.server, &server);
    return pair;
}

static size_t send_all(struct msi_handshake *from, uint8_t *to) {
    size_t n;
    const uint8_t *bytes = msi_handshake_output(from, &n);
    if (n) memcpy(to, bytes, n);
    msi_handshake_sent(from, n);
    return n;
}

/* Gives the bytes in pieces; returns how many were taken. */
static size_t receive_all(struct msi_handshake *to, const uint8_t *bytes, size_t n, size_t piece) {
    size_t done = 0;
    while (done < n) {
        size_t room;
        uint8_t *at = msi_handshake_input(to, &room);
        if (!room) break;
        if (room > piece) room = piece;
        if (room > n - done) room = n - done;
        memcpy(at, bytes + done, room);
        msi_handshake_received(to, room);
        done += room;
    }
    return done;
}

/* Runs the connection. One bit of a message is flipped; flip < 0: none. */
static void run(struct pair *pair, int message, int flip, size_t piece) {
    for (int m = 0; m < MESSAGES; m++) {
        bool from_client = m % 2 == 0;
        struct msi_handshake *from = from_client ? &pair->client : &pair->server;
        struct msi_handshake *to = from_client ? &pair->server : &pair->client;
        size_t n = send_all(from, pair->messages[m]);
        if (m == message && flip >= 0) pair->messages[m][flip / 8] ^= (uint8_t)(1 << flip % 8);
        pair->lengths[m] = n;
        if (to->state == MSI_AUTH_PENDING) receive_all(to, pair->messages[m], n, piece);
    }
}

static void expect_refused(const struct msi_handshake *h, enum msi_auth_code code) {
    assert_int_equal(h->state, MSI_AUTH_REFUSED);
    assert_int_equal(h->code, code);
}

static void a_good_run(void **state) {
    (void)state;
    for (size_t piece = 1; piece < 200; piece += 37) {
        struct pair pair = begin();
        uint8_t keys[4][MSI_SECRET_BYTES];
        run(&pair, 0, -1, piece);
        assert_int_equal(pair.client.state, MSI_AUTH_DONE);
        assert_int_equal(pair.server.state, MSI_AUTH_DONE);
        assert_memory_equal(pair.lengths, sizes, sizeof sizes);
        assert_int_equal(users_asked, 0);
        assert_true(pair.server.peer_has_key && pair.server.peer_source == MSI_SECRET_FROM_USER);
        for (int i = 0; i < 4; i++)
            assert_true(msi_handshake_key(i < 2 ? &pair.client : &pair.server,
                                          i % 2 ? MSI_KEY_CLIENT : MSI_KEY_SERVER, keys[i]));
        assert_memory_equal(keys[0], keys[2], MSI_SECRET_BYTES);
        assert_memory_equal(keys[1], keys[3], MSI_SECRET_BYTES);
        assert_memory_not_equal(keys[0], keys[1], MSI_SECRET_BYTES);
    }
}

static void every_flipped_bit_is_refused(void **state) {
    (void)state;
    for (int m = 0; m < MESSAGES; m++)
        for (int bit = 0; bit < 8 * (int)sizes[m]; bit++) {
            struct pair pair = begin();
            run(&pair, m, bit, 1000);
            if (m == VERDICT ? pair.client.state == MSI_AUTH_DONE : pair.server.state == MSI_AUTH_DONE)
                fail_msg("bit %d of message %d was not noticed", bit, m);
            assert_int_not_equal(pair.client.state, MSI_AUTH_DONE);
        }
}

static void a_truncated_message_never_completes(void **state) {
    (void)state;
    struct pair good = begin();
    run(&good, 0, -1, 1000);
    for (size_t n = 0; n < MSI_AUTH_HELLO; n++) {
        struct pair pair = begin();
        size_t left;
        receive_all(&pair.server, good.messages[HELLO], n, 1000);
        assert_int_equal(pair.server.state, MSI_AUTH_PENDING);
        send_all(&pair.server, pair.messages[ANSWER]);
        msi_handshake_input(&pair.server, &left);
        assert_int_equal(left, MSI_AUTH_HELLO - n);
    }
}

/* What was recorded is worthless on another connection: the nonces differ. */
static void replays_are_refused(void **state) {
    (void)state;
    struct pair old = begin(), pair = begin();
    uint8_t bytes[MSI_AUTH_HELLO];
    run(&old, 0, -1, 1000);
    receive_all(&pair.server, old.messages[HELLO], MSI_AUTH_HELLO, 1000);
    send_all(&pair.server, bytes);
    receive_all(&pair.server, old.messages[PROOF], MSI_AUTH_PROOF, 1000);
    expect_refused(&pair.server, MSI_AUTH_SECRET);
    receive_all(&pair.client, old.messages[ANSWER], MSI_AUTH_ANSWER, 1000);
    expect_refused(&pair.client, MSI_AUTH_SECRET);
}

/* A stranger without the secret gives the MACs of an end back to it. */
static void reflections_are_refused(void **state) {
    (void)state;
    struct pair pair = begin();
    uint8_t hello[MSI_AUTH_HELLO], answer[MSI_AUTH_ANSWER], proof[MSI_AUTH_PROOF] = {0};
    send_all(&pair.client, hello);
    receive_all(&pair.server, hello, sizeof hello, 1000);
    send_all(&pair.server, answer);
    memcpy(proof + 4, answer + MSI_AUTH_ANSWER - MSI_AUTH_MAC, MSI_AUTH_MAC);
    receive_all(&pair.server, proof, sizeof proof, 1000);
    expect_refused(&pair.server, MSI_AUTH_SECRET);
    /* A connection to itself. */
    receive_all(&pair.client, hello, sizeof hello, 1000);
    assert_int_equal(pair.client.state, MSI_AUTH_REFUSED);
    assert_contains(msi_auth_code_text(pair.client.code), "malformed");
}

/* A relay passes all messages on. The ends see other addresses. */
static void relays_are_refused(void **state) {
    (void)state;
    for (int side = 0; side < 2; side++) {
        struct pair pair = begin();
        struct msi_auth_addresses *seen = &pair.server.config.addresses;
        (side ? seen->client : seen->server)[MSI_AUTH_ADDRESS - 1]++;
        run(&pair, 0, -1, 1000);
        expect_refused(&pair.client, MSI_AUTH_ADDRESSES);
        expect_refused(&pair.server, MSI_AUTH_ADDRESSES);
        assert_true(pair.server.by_peer);
    }
    /* The server finds it alone if the client does not check it; without the check at both ends, it works. */
    for (int checked = 0; checked < 2; checked++) {
        struct pair pair = begin();
        struct msi_handshake_config config = pair.client.config;
        config.addresses.client[0]++;
        config.bind = false;
        msi_handshake_begin(&pair.client, &config);
        pair.server.config.bind = checked;
        run(&pair, 0, -1, 1000);
        if (checked) {
            expect_refused(&pair.server, MSI_AUTH_ADDRESSES);
            expect_refused(&pair.client, MSI_AUTH_ADDRESSES);
            assert_true(pair.client.by_peer);
        } else {
            assert_int_equal(pair.server.state, MSI_AUTH_DONE);
            assert_int_equal(pair.client.state, MSI_AUTH_DONE);
        }
    }
}

static void roles_and_contexts_count(void **state) {
    (void)state;
    struct pair pair = begin();
    struct msi_handshake_config config = pair.client.config;
    config.role = MSI_ROLE_CLOCK;
    msi_handshake_begin(&pair.client, &config);
    run(&pair, 0, -1, 1000);
    expect_refused(&pair.server, MSI_AUTH_ROLE);
    expect_refused(&pair.client, MSI_AUTH_ROLE);
    assert_true(pair.client.by_peer);
    pair = begin();
    config = pair.client.config;
    config.context[0] = 'x';
    msi_handshake_begin(&pair.client, &config);
    run(&pair, 0, -1, 1000);
    expect_refused(&pair.server, MSI_AUTH_CONTEXT);
    expect_refused(&pair.client, MSI_AUTH_CONTEXT);
    assert_int_equal(pair.client.detail, 9);
}

static void other_secrets_are_refused(void **state) {
    (void)state;
    struct pair pair = begin();
    uint8_t proof[MSI_AUTH_PROOF] = {0};
    pair.server.config.key = other_secret;
    run(&pair, 0, -1, 1000);
    expect_refused(&pair.client, MSI_AUTH_SECRET);
    expect_refused(&pair.server, MSI_AUTH_SECRET);
    assert_true(pair.server.by_peer && !pair.client.by_peer);
    /* A client that goes on nevertheless. */
    pair = begin();
    pair.server.config.key = other_secret;
    pair.client.config.key = other_secret;
    send_all(&pair.client, pair.messages[HELLO]);
    receive_all(&pair.server, pair.messages[HELLO], MSI_AUTH_HELLO, 1000);
    send_all(&pair.server, pair.messages[ANSWER]);
    pair.server.config.key = secret;
    receive_all(&pair.client, pair.messages[ANSWER], MSI_AUTH_ANSWER, 1000);
    send_all(&pair.client, proof);
    receive_all(&pair.server, proof, sizeof proof, 1000);
    expect_refused(&pair.server, MSI_AUTH_SECRET);
}

/* Which ends have no secret: 1 the client, 2 the server. */
static void without_a_secret_the_user_counts(void **state) {
    (void)state;
    for (int without = 1; without < 4; without++)
        for (int same = 0; same < 2; same++) {
            struct pair pair = begin();
            struct msi_handshake_config config = pair.client.config;
            uint8_t key[MSI_SECRET_BYTES];
            same_user = same;
            if (without & 1) config.key = NULL;
            msi_handshake_begin(&pair.client, &config);
            if (without & 2) pair.server.config.key = NULL;
            run(&pair, 0, -1, 1000);
            assert_int_equal(users_asked, same ? 2 : 1);
            assert_int_equal(pair.client.state, same ? MSI_AUTH_DONE : MSI_AUTH_REFUSED);
            assert_int_equal(pair.server.state, pair.client.state);
            if (!same) expect_refused(&pair.client, MSI_AUTH_NO_SECRET);
            assert_false(msi_handshake_key(&pair.client, MSI_KEY_TLS, key));
        }
}

/* A server that claims to have no secret must be of the same user, as the client's kernel sees it. */
static void a_server_cannot_talk_a_client_out_of_it(void **state) {
    (void)state;
    struct pair pair = begin();
    uint8_t answer[MSI_AUTH_ANSWER] = {0, MSI_AUTH_PROTOCOL, MSI_ROLE_LINK};
    send_all(&pair.client, pair.messages[HELLO]);
    memcpy(answer + 4, &pair.client.config.addresses, sizeof pair.client.config.addresses);
    receive_all(&pair.client, answer, sizeof answer, 1000);
    expect_refused(&pair.client, MSI_AUTH_NO_SECRET);
    assert_int_equal(users_asked, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_run),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(a_truncated_message_never_completes),
        cmocka_unit_test(replays_are_refused),
        cmocka_unit_test(reflections_are_refused),
        cmocka_unit_test(relays_are_refused),
        cmocka_unit_test(roles_and_contexts_count),
        cmocka_unit_test(other_secrets_are_refused),
        cmocka_unit_test(without_a_secret_the_user_counts),
        cmocka_unit_test(a_server_cannot_talk_a_client_out_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
