/* test_tls.c - TLS sessions of the module mst_tls.so over sockets. Links over TLS: conform/test_link. */
#include "harness.h"

#include "auth/tls.h"

#include <errno.h>
#include <sys/socket.h>

enum { BIG = 3 << 20 };

static const struct msi_tls_module *module;
static const uint8_t psk[MSI_TLS_PSK] = {1, 2, 3}, other_psk[MSI_TLS_PSK] = {1, 2, 4};

/* A session at each end of a connection, with whatever is between them. */
struct pair {
    struct msi_tls_context *context;
    struct msi_stream ends[2]; /* client, server */
    enum msi_tls_state states[2];
    char why[2][MSI_TLS_WHY];
};

static void begin(struct pair *pair, const struct msi_tls_config *config, const int fds[2],
                  const uint8_t *client_psk, bool ahead) {
    char why[MSI_TLS_WHY];
    *pair = (struct pair){.context = module->open(config, why)};
    if (!pair->context) fail_msg("%s", why);
    for (int i = 0; i < 2; i++) {
        struct msi_tls_begin how = {
            .fd = fds[i], .server = i, .ahead = ahead, .host = "localhost", .psk = i ? psk : client_psk};
        pair->ends[i] = (struct msi_stream){fds[i], module->begin(pair->context, &how)};
        assert_non_null(pair->ends[i].tls);
        pair->states[i] = MSI_TLS_READS;
    }
}

static void step(struct pair *pair, int i) {
    if (pair->states[i] == MSI_TLS_READS || pair->states[i] == MSI_TLS_WRITES)
        pair->states[i] = module->handshake(pair->ends[i].tls, pair->why[i]);
}

static void shake_hands(struct pair *pair) {
    for (int i = 0; i < 20; i++) step(pair, i % 2);
}

static void end(struct pair *pair) {
    for (int i = 0; i < 2; i++) msi_stream_close(&pair->ends[i]);
    module->close(pair->context);
}

static const struct msi_tls_config by_secret = {
    .certificate = "", .key = "", .authority = "", .name = "", .rekey = 1 << 20};

static void connect_ends(int fds[2]) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
}

static void open_pair(struct pair *pair, bool ahead) {
    int fds[2];
    connect_ends(fds);
    begin(pair, &by_secret, fds, psk, ahead);
    shake_hands(pair);
    for (int i = 0; i < 2; i++)
        if (pair->states[i] != MSI_TLS_DONE) fail_msg("end %d: %s", i, pair->why[i]);
}

static uint8_t byte_at(size_t i) {
    return (uint8_t)(i * 7 + i / 251);
}

/* Sends a large buffer in parts of uneven sizes to an end that reads into such parts. */
static void stream_one_way(struct pair *pair, int from) {
    uint8_t *in = malloc(BIG), *out = malloc(BIG);
    size_t sent = 0, got = 0;
    bool held = false;
    assert_true(in && out);
    for (size_t i = 0; i < BIG; i++) out[i] = byte_at(i);
    while (got < BIG) {
        struct iovec parts[3];
        size_t n = 0, at = sent, sizes[3] = {13, 5000, 700000};
        for (; n < 3 && at < BIG; n++) {
            parts[n] = (struct iovec){out + at, BIG - at < sizes[n] ? BIG - at : sizes[n]};
            at += parts[n].iov_len;
        }
        ssize_t k = n ? msi_stream_send_vector(&pair->ends[from], parts, n) : 0;
        assert_true(k >= 0 || errno == EAGAIN);
        if (k > 0) sent += (size_t)k;
        held = held || msi_stream_held(&pair->ends[from]);
        for (k = 1; k > 0 && got < BIG;) {
            k = msi_stream_recv(&pair->ends[!from], in + got, BIG - got < 16384 ? BIG - got : 16384);
            assert_true(k > 0 || (k < 0 && errno == EAGAIN));
            if (k > 0) got += (size_t)k;
        }
    }
    assert_true(held); /* the socket's buffer was full */
    assert_memory_equal(in, out, BIG);
    free(in);
    free(out);
}

/* The keys change after each MiB. */
static void large_streams_in_both_directions(void **state) {
    (void)state;
    for (int ahead = 0; ahead < 2; ahead++) {
        struct pair pair;
        open_pair(&pair, ahead);
        for (int i = 0; i < 4; i++) stream_one_way(&pair, i % 2);
        end(&pair);
    }
}

static void the_end_of_a_stream(void **state) {
    (void)state;
    struct pair pair;
    char text[8];
    open_pair(&pair, true);
    assert_int_equal(msi_stream_recv(&pair.ends[1], text, sizeof text), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(msi_stream_send(&pair.ends[0], "hello", 5), 5);
    assert_int_equal(msi_stream_peek(&pair.ends[1], text, 1), 1);
    shutdown(pair.ends[0].fd, SHUT_WR);
    assert_int_equal(msi_stream_recv(&pair.ends[1], text, sizeof text), 5);
    assert_memory_equal(text, "hello", 5);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(msi_stream_peek(&pair.ends[1], text, 1), 0);
        assert_int_equal(msi_stream_recv(&pair.ends[1], text, sizeof text), 0);
    }
    end(&pair);
}

/* Nothing in the bytes on the wire repeats or shows the plaintext; a flipped bit is noticed. */
static void altered_bytes_are_refused(void **state) {
    (void)state;
    static const char text[] = "the same plaintext, twice";
    struct pair pair;
    open_pair(&pair, true);
    uint8_t wire[2][256];
    ssize_t n = 0;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(msi_stream_send(&pair.ends[0], text, sizeof text), sizeof text);
        n = msi_recv(pair.ends[1].fd, wire[i], sizeof wire[i]);
        assert_true(n > (ssize_t)sizeof text && wire[i][0] == 23 && wire[i][1] == 3 && wire[i][2] == 3);
        assert_null(memmem(wire[i], (size_t)n, text, 8));
    }
    assert_memory_not_equal(wire[0] + 5, wire[1] + 5, (size_t)n - 5);
    wire[0][9] ^= 1;
    assert_int_equal(msi_send(pair.ends[0].fd, wire[0], (size_t)n), n);
    char in[sizeof text];
    assert_int_equal(msi_stream_recv(&pair.ends[1], in, sizeof in), -1);
    assert_int_equal(errno, EBADMSG);
    end(&pair);
}

static void another_secret_is_refused(void **state) {
    (void)state;
    struct pair pair;
    int fds[2];
    connect_ends(fds);
    begin(&pair, &by_secret, fds, other_psk, true);
    shake_hands(&pair);
    assert_int_equal(pair.states[0], MSI_TLS_FAILED);
    assert_int_equal(pair.states[1], MSI_TLS_FAILED);
    assert_true(*pair.why[0] && *pair.why[1]);
    end(&pair);
}

/* The other end is not one of TLS, or ends. */
static void other_bytes_are_refused(void **state) {
    (void)state;
    static const char *const said[] = {"GET / HTTP/1.0\r\n\r\n", "", "\x16\x03\x01\x40"};
    for (size_t i = 0; i < COUNT_OF(said); i++)
        for (int server = 0; server < 2; server++) {
            struct pair pair;
            int fds[2];
            connect_ends(fds);
            begin(&pair, &by_secret, fds, psk, false);
            step(&pair, server);
            if (*said[i]) assert_true(msi_send(fds[!server], said[i], strlen(said[i])) > 0);
            shutdown(fds[!server], SHUT_WR);
            for (int j = 0; j < 3; j++) step(&pair, server);
            assert_int_equal(pair.states[server], i == 0 ? MSI_TLS_FAILED : MSI_TLS_CLOSED);
            assert_int_equal(*pair.why[server] != 0, i == 0);
            end(&pair);
        }
}

/* The kernel reports the error once, perhaps to the call that reads the bytes before it. */
static void a_reset_is_not_the_end(void **state) {
    (void)state;
    struct pair pair;
    char text[64];
    open_pair(&pair, true);
    assert_int_equal(msi_stream_send(&pair.ends[1], "not read", 8), 8);
    assert_int_equal(msi_stream_send(&pair.ends[0], "hello", 5), 5);
    msi_stream_close(&pair.ends[0]); /* a reset, because bytes are not read */
    assert_int_equal(msi_stream_recv(&pair.ends[1], text, sizeof text), 5);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(msi_stream_recv(&pair.ends[1], text, sizeof text), -1);
        assert_int_equal(errno, ECONNRESET);
    }
    assert_int_equal(msi_stream_peek(&pair.ends[1], text, 1), -1);
    assert_int_equal(errno, ECONNRESET);
    end(&pair);
}

/* After EAGAIN other bytes are offered than before, and fewer. */
static void bytes_that_are_not_sent_again(void **state) {
    (void)state;
    struct pair pair;
    char *data = calloc(1, BIG);
    assert_non_null(data);
    open_pair(&pair, true);
    ssize_t n = 1;
    while (n > 0) n = msi_stream_send(&pair.ends[0], data, BIG);
    assert_int_equal(errno, EAGAIN);
    assert_true(msi_stream_held(&pair.ends[0]) > 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(msi_stream_send(&pair.ends[0], data, 1), -1);
        assert_int_equal(errno, EPROTO);
    }
    free(data);
    end(&pair);
}

/* With certificates, too, both ends must be those that have authenticated, and have the same key. */
static void certificates_are_bound_to_the_secret(void **state) {
    (void)state;
    char directory[] = "/tmp/muster-tls-XXXXXX", command[400], files[2][64];
    assert_non_null(mkdtemp(directory));
    snprintf(files[0], sizeof files[0], "%s/key", directory);
    snprintf(files[1], sizeof files[1], "%s/cert", directory);
    snprintf(command, sizeof command,
             "openssl req -x509 -newkey ed25519 -nodes -keyout %s -out %s -subj /CN=localhost "
             "-addext subjectAltName=DNS:localhost -days 2 2>/dev/null",
             files[0], files[1]);
    bool made = system(command) == 0;
    struct msi_tls_config config = {
        .certificate = files[1], .key = files[0], .authority = files[1], .name = "", .rekey = 1 << 20};
    for (int same = 1; same >= 0 && made; same--) {
        struct pair pair;
        int fds[2];
        connect_ends(fds);
        begin(&pair, &config, fds, same ? psk : other_psk, true);
        shake_hands(&pair);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(pair.states[i], same ? MSI_TLS_DONE : MSI_TLS_FAILED);
            if (!same) assert_contains(pair.why[i], "not the one that has authenticated");
        }
        end(&pair);
    }
    unlink(files[0]);
    unlink(files[1]);
    rmdir(directory);
    if (!made) skip();
}

static void files_that_cannot_be_used(void **state) {
    (void)state;
    char why[MSI_TLS_WHY];
    struct msi_tls_config config = by_secret;
    config.certificate = config.key = config.authority = "/dev/null";
    assert_null(module->open(&config, why));
    assert_contains(why, "MUSTER_TLS_CERT cannot be used");
}

static void a_module_that_is_not_there(void **state) {
    (void)state;
    const struct msi_tls_module *none;
    assert_status(msi_tls_load("/nowhere", &none), MST_ERR_UNSUPPORTED);
    assert_contains(mst_last_error()->message, "mst_tls.so");
}

static int load(void **state) {
    (void)state;
    return msi_tls_load(getenv("MUSTER_BACKEND_PATH"), &module) != MST_OK;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_streams_in_both_directions),
        cmocka_unit_test(the_end_of_a_stream),
        cmocka_unit_test(altered_bytes_are_refused),
        cmocka_unit_test(another_secret_is_refused),
        cmocka_unit_test(other_bytes_are_refused),
        cmocka_unit_test(files_that_cannot_be_used),
        cmocka_unit_test(a_module_that_is_not_there),
        cmocka_unit_test(a_reset_is_not_the_end),
        cmocka_unit_test(bytes_that_are_not_sent_again),
        cmocka_unit_test(certificates_are_bound_to_the_secret),
    };
    if (load(NULL)) {
        printf("skip: %s\n", mst_last_error()->message);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
