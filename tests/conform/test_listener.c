/* test_listener.c - ranks that connect to listeners, and unverified connections that misbehave. */
#include "harness.h"

#include "os/socket.h"
#include "transport/dial.h"
#include "transport/listener.h"

#include <muster/status.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LIMIT_MS = 50000, SIZE = 4, ME = 1, KEPT = 4 * SIZE + 64 };

static const uint64_t world = 0xfeedfacecafebeef;
static struct msi_listener *listener;
static struct msi_address address;

static int open_listener(void **state) {
    (void)state;
    address = (struct msi_address){.host = "127.0.0.1"};
    if (msi_listener_open(&address, NULL, world, ME, SIZE, &listener) != MST_OK) return -1;
    address.port = msi_listener_port(listener);
    return 0;
}

static int close_listener(void **state) {
    (void)state;
    msi_listener_close(listener);
    listener = NULL;
    return 0;
}

static struct msi_hello hello_from(int from, uint64_t group, int channel) {
    return (struct msi_hello){.world = world,
                              .group = group,
                              .from = (uint32_t)from,
                              .to = ME,
                              .channel = (uint16_t)channel,
                              .streams = 1};
}

/* Dials until success or failure while the listener makes progress. Returns the socket, or -1. */
static int dial(struct msi_dial *d, const struct msi_hello *hello) {
    struct msi_stream stream = {.fd = -1};
    int64_t limit = msi_deadline(LIMIT_MS);
    msi_dial_begin(d, &address, NULL, hello);
    while (msi_dial_progress(d, &stream) == MSI_DIAL_PENDING) {
        if (listener) msi_listener_progress(listener);
        assert_true(msi_now() < limit);
    }
    msi_dial_end(d);
    return stream.fd;
}

static int dial_well(int from, uint64_t group, int channel) {
    struct msi_dial d;
    struct msi_hello hello = hello_from(from, group, channel);
    int fd = dial(&d, &hello);
    if (fd < 0) fail_msg("%s", d.why);
    return fd;
}

/* Takes the only connection of a rank. */
static int take(uint64_t group, int from, int channel) {
    int streams = 0, fd = msi_listener_take(listener, group, from, channel, 0, &streams).fd;
    assert_true(fd < 0 || streams == 1);
    return fd;
}

/* A connection without a hello. */
static int connect_raw(void) {
    struct msi_wait wait = {msi_deadline(LIMIT_MS), NULL};
    int fd = -1;
    assert_ok(msi_connect(&address, false, &wait, &fd));
    return fd;
}

/* What the listener answers: a byte, 0 if it closes the connection. */
static int answer_to(int fd) {
    int64_t limit = msi_deadline(LIMIT_MS);
    for (;;) {
        uint8_t byte;
        ssize_t n = msi_recv(fd, &byte, 1);
        if (n >= 0) return n == 1 ? byte : 0;
        if (errno == ECONNRESET) return 0;
        assert_int_equal(errno, EAGAIN);
        msi_listener_progress(listener);
        assert_true(msi_now() < limit);
    }
}

static void expect_connected(int a, int b) {
    struct pollfd ask = {.fd = b, .events = POLLIN};
    char byte = 0;
    assert_true(a >= 0 && b >= 0);
    assert_int_equal(msi_send(a, "x", 1), 1);
    assert_int_equal(poll(&ask, 1, LIMIT_MS), 1);
    assert_int_equal(msi_recv(b, &byte, 1), 1);
    assert_int_equal(byte, 'x');
    close(a);
    close(b);
}

static void a_connection_is_given_to_who_asks_for_it(void **state) {
    (void)state;
    assert_int_equal(take(5, 2, 0), -1);
    int there = dial_well(2, 5, 0);
    assert_int_equal(take(6, 2, 0), -1);
    assert_int_equal(take(5, 3, 0), -1);
    assert_int_equal(take(5, 2, 1), -1);
    int here = take(5, 2, 0);
    assert_int_equal(take(5, 2, 0), -1);
    expect_connected(there, here);
}

/* What was written to a wake_fd so far. */
static uint64_t rings(const struct msi_listener_wake *wake_fd) {
    uint64_t n = 0;
    return read(wake_fd->fd, &n, sizeof n) == sizeof n ? n : 0;
}

static void a_bell_rings_for_its_group_alone(void **state) {
    (void)state;
    struct msi_listener_wake wake_fd = {.group = 5, .fd = eventfd(0, EFD_NONBLOCK)};
    assert_true(wake_fd.fd >= 0);
    msi_listener_watch(listener, &wake_fd);
    int other = dial_well(2, 6, 0);
    assert_int_equal(rings(&wake_fd), 0);
    int there = dial_well(2, 5, 0);
    assert_int_equal(rings(&wake_fd), 1);
    msi_listener_unwatch(listener, &wake_fd);
    int later = dial_well(3, 5, 0);
    assert_int_equal(rings(&wake_fd), 0);
    close(wake_fd.fd);
    close(other);
    close(there);
    close(later);
}

static void groups_ranks_and_channels_are_kept_apart(void **state) {
    (void)state;
    int fds[3][2][2], n = 0;
    for (int from = 0; from < 3; from++)
        for (int group = 0; group < 2; group++)
            for (int channel = 0; channel < 2; channel++)
                fds[from][group][channel] = dial_well(from, (uint64_t)group, channel);
    for (int from = 2; from >= 0; from--)
        for (int channel = 0; channel < 2; channel++)
            for (int group = 0; group < 2; group++, n++)
                expect_connected(take((uint64_t)group, from, channel), fds[from][group][channel]);
    assert_int_equal(n, 12);
}

static void streams_are_kept_apart(void **state) {
    (void)state;
    int there[3], streams = 0;
    struct msi_dial d;
    struct msi_hello hello = hello_from(2, 5, 1);
    hello.streams = 3;
    for (hello.stream = 0; hello.stream < 3; hello.stream++) there[hello.stream] = dial(&d, &hello);
    for (int i = 2; i >= 0; i--) {
        expect_connected(there[i], msi_listener_take(listener, 5, 2, 1, i, &streams).fd);
        assert_int_equal(streams, 3);
        assert_int_equal(msi_listener_take(listener, 5, 2, 1, i, &streams).fd, -1);
    }
}

static void the_last_connection_of_several_counts(void **state) {
    (void)state;
    int first = dial_well(0, 1, 0), second = dial_well(0, 1, 0);
    assert_int_equal(answer_to(first), 0); /* replaced by the new connection */
    expect_connected(second, take(1, 0, 0));
    assert_int_equal(take(1, 0, 0), -1);
    close(first);
}

/* A client without a secret on a raw connection. It must not be moved. */
static void begin_client(struct msi_auth_conn *client, int fd, const struct msi_hello *hello) {
    uint8_t bytes[MSI_HELLO_BYTES];
    msi_hello_write(hello, bytes);
    *client = (struct msi_auth_conn){.fd = fd};
    msi_auth_begin(client, NULL, fd, false, MSI_ROLE_LINK, bytes);
}

/* Sends the output of a client in pieces of a byte while the listener works; last comes with the last one. */
static void send_slowly(struct msi_auth_conn *client, char last) {
    for (;;) {
        size_t n;
        const uint8_t *bytes = msi_handshake_output(&client->handshake, &n);
        if (!n) return;
        uint8_t both[2] = {bytes[0], (uint8_t)last};
        size_t now = n == 1 && last ? 2 : 1;
        assert_int_equal(msi_send(client->fd, both, now), now);
        msi_handshake_sent(&client->handshake, 1);
        struct pollfd ask = {.fd = msi_listener_fd(listener), .events = POLLIN};
        assert_int_equal(poll(&ask, 1, LIMIT_MS), 1);
        msi_listener_progress(listener);
    }
}

/* Receives the next message of the listener. */
static void receive_message(struct msi_auth_conn *client) {
    int64_t limit = msi_deadline(LIMIT_MS);
    for (;;) {
        size_t n, out;
        uint8_t *to = msi_handshake_input(&client->handshake, &n);
        ssize_t got = n ? msi_recv(client->fd, to, n) : 0;
        if (got > 0) msi_handshake_received(&client->handshake, (size_t)got);
        msi_handshake_output(&client->handshake, &out);
        if (out || client->handshake.state != MSI_AUTH_PENDING) return;
        msi_listener_progress(listener);
        assert_true(msi_now() < limit);
    }
}

/* Bytes after the handshake belong to the link. */
static void a_hello_may_come_in_pieces_and_is_not_overread(void **state) {
    (void)state;
    struct msi_hello hello = hello_from(3, 9, 2);
    struct msi_auth_conn client;
    char rest[8] = {0};
    int there = connect_raw(), here;
    begin_client(&client, there, &hello);
    send_slowly(&client, 0);
    receive_message(&client);
    assert_int_equal(take(9, 3, 2), -1);
    send_slowly(&client, 'r');
    receive_message(&client);
    assert_int_equal(client.handshake.state, MSI_AUTH_DONE);
    here = take(9, 3, 2);
    assert_true(here >= 0);
    assert_int_equal(msi_recv(here, rest, sizeof rest), 1);
    assert_string_equal(rest, "r");
    close(here);
    close(there);
}

/* Other protocols get no answer; a hello for another rank is refused with the reason. */
static void a_wrong_hello_is_answered_and_closed(void **state) {
    (void)state;
    static const char *const strange[] = {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01", "MSTL", "\xA5 muster"};
    for (size_t i = 0; i < COUNT_OF(strange); i++) {
        int fd = connect_raw();
        assert_int_equal(msi_send(fd, strange[i], strlen(strange[i])), strlen(strange[i]));
        assert_int_equal(answer_to(fd), 0);
        close(fd);
    }
    struct {
        size_t at;
        uint8_t value;
        int answer;
    } wrong[] = {{0, 'm', MSI_HELLO_MALFORMED}, {4, 1, MSI_HELLO_VERSION},  {8, 0, MSI_HELLO_WORLD},
                 {24, SIZE, MSI_HELLO_RANK},    {27, 0x80, MSI_HELLO_RANK}, {28, ME + 1, MSI_HELLO_RANK},
                 {35, 0, MSI_HELLO_MALFORMED}};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct msi_hello hello = hello_from(0, 1, 0);
        struct msi_auth_conn client = {0};
        uint8_t bytes[MSI_HELLO_BYTES];
        int fd = connect_raw();
        int64_t limit = msi_deadline(LIMIT_MS);
        msi_hello_write(&hello, bytes);
        bytes[wrong[i].at] = wrong[i].value;
        msi_auth_begin(&client, NULL, fd, false, MSI_ROLE_LINK, bytes);
        while (msi_auth_progress(&client) == MSI_AUTH_PENDING) {
            msi_listener_progress(listener);
            assert_true(msi_now() < limit);
        }
        assert_int_equal(client.handshake.code, MSI_AUTH_CONTEXT);
        assert_int_equal(client.handshake.detail, wrong[i].answer);
        assert_int_equal(answer_to(fd), 0);
        assert_int_equal(take(1, 0, 0), -1);
        close(fd);
    }
}

/* Secrets: the same one, another one, and none while the other end has one; all on this host. */
static void secrets_are_compared(void **state) {
    (void)state;
    struct msi_settings settings = {.auth_addresses = 1};
    struct msi_auth auths[2];
    char paths[2][40] = {"/tmp/muster-listener-XXXXXX", "/tmp/muster-listener-XXXXXX"};
    for (int i = 0; i < 2; i++) {
        int fd = mkstemp(paths[i]);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, i ? "0123456789abcdef" : "another secret of a job", 16 + 7 * !i),
                         16 + 7 * !i);
        close(fd);
        strcpy(settings.secret_file, paths[i]);
        assert_ok(msi_auth_init(&auths[i], &settings));
    }
    msi_listener_close(listener);
    address.port = 0;
    assert_ok(msi_listener_open(&address, &auths[0], world, ME, SIZE, &listener));
    address.port = msi_listener_port(listener);
    for (int i = -1; i < 2; i++) {
        struct msi_dial d;
        struct msi_hello hello = hello_from(2, 5, 0);
        struct msi_stream stream = {.fd = -1};
        int64_t limit = msi_deadline(LIMIT_MS);
        msi_dial_begin(&d, &address, i < 0 ? NULL : &auths[i], &hello);
        while (msi_dial_progress(&d, &stream) == MSI_DIAL_PENDING) {
            msi_listener_progress(listener);
            assert_true(msi_now() < limit);
        }
        msi_dial_end(&d);
        if (i == 1) {
            assert_int_equal(d.state, MSI_DIAL_FAILED);
            assert_status(d.status, MST_ERR_CONFIG);
            assert_contains(d.why, "differs");
            assert_contains(d.why, paths[1]);
            assert_contains(d.remedy, "MUSTER_SECRET_FILE");
            assert_int_equal(take(5, 2, 0), -1);
        } else {
            expect_connected(stream.fd, take(5, 2, 0)); /* without a secret: it is of the same user */
        }
    }
    msi_listener_close(listener);
    listener = NULL;
    for (int i = 0; i < 2; i++) {
        msi_auth_end(&auths[i]);
        unlink(paths[i]);
    }
}

static void a_short_hello_is_harmless(void **state) {
    (void)state;
    for (int n = 0; n < MSI_AUTH_HELLO; n += 7) {
        struct msi_hello hello = hello_from(0, 1, 0);
        struct msi_auth_conn client;
        int fd = connect_raw();
        begin_client(&client, fd, &hello);
        if (n) assert_int_equal(msi_send(fd, client.handshake.hello, (size_t)n), n);
        shutdown(fd, SHUT_WR);
        assert_int_equal(answer_to(fd), 0);
        close(fd);
    }
    int dialed = dial_well(0, 1, 0);
    expect_connected(dialed, take(1, 0, 0));
}

static void silent_connections_are_closed_and_delay_no_other(void **state) {
    (void)state;
    int silent = connect_raw();
    msi_listener_progress(listener);
    int dialed = dial_well(2, 1, 0);
    expect_connected(dialed, take(1, 2, 0)); /* with the default stall time */
    msi_listener_set_stall(listener, 20);
    int64_t begin = msi_now();
    assert_int_equal(answer_to(silent), 0);
    assert_true(ms_since(begin) < 5000);
    close(silent);
}

static void a_lack_of_descriptors_is_an_error_after_a_while(void **state) {
    (void)state;
    struct rlimit usual, none;
    int waiting = connect_raw();
    msi_listener_set_stall(listener, 200);
    getrlimit(RLIMIT_NOFILE, &usual);
    none = (struct rlimit){0, usual.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    msi_listener_progress(listener);
    mst_status at_once = msi_listener_check(listener), later = MST_OK;
    int64_t limit = msi_deadline(LIMIT_MS);
    for (; later == MST_OK && msi_now() < limit; msi_listener_progress(listener))
        later = msi_listener_check(listener);
    setrlimit(RLIMIT_NOFILE, &usual);
    assert_int_equal(at_once, MST_OK);
    assert_int_equal(later, MST_ERR_SYSTEM);
    assert_non_null(strstr(mst_error(), "RLIMIT_NOFILE"));
    int dialed = dial_well(2, 1, 0);
    expect_connected(dialed, take(1, 2, 0));
    assert_int_equal(msi_listener_check(listener), MST_OK);
    close(waiting);
}

static void many_unverified_connections_leave_space(void **state) {
    (void)state;
    int fds[KEPT + 20];
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        fds[i] = connect_raw();
        if (i % 10 == 0) msi_listener_progress(listener);
    }
    int dialed = dial_well(2, 1, 0);
    expect_connected(dialed, take(1, 2, 0));
    assert_int_equal(answer_to(fds[0]), 0); /* the oldest was closed */
    for (size_t i = 0; i < COUNT_OF(fds); i++) close(fds[i]);
}

static void too_many_untaken_connections_are_refused(void **state) {
    (void)state;
    int fds[KEPT];
    struct msi_dial d;
    struct msi_hello hello = hello_from(0, 77, 0);
    struct caught_stderr caught = begin_stderr();
    for (int i = 0; i < KEPT; i++) fds[i] = dial_well(i % SIZE, 1, i);
    int more = dial(&d, &hello);
    free(end_stderr(caught));
    assert_int_equal(more, -1);
    assert_status(d.status, MST_ERR_UNREACHABLE);
    expect_connected(take(1, 2, 2), fds[2]);
    int dialed = dial(&d, &hello);
    expect_connected(dialed, take(77, 0, 0));
    for (int i = 0; i < KEPT; i++)
        if (i != 2) close(fds[i]);
}

/* Further sockets do not count: otherwise incomplete ranks could fill the listener. */
static void further_streams_take_no_place(void **state) {
    (void)state;
    enum { RANKS = KEPT / 2 };
    int fds[RANKS][4];
    struct msi_dial d;
    for (int i = 0; i < RANKS; i++) {
        struct msi_hello hello = hello_from(i % SIZE, 1, i);
        hello.streams = 4;
        for (hello.stream = 0; hello.stream < 4; hello.stream++) {
            fds[i][hello.stream] = dial(&d, &hello);
            if (fds[i][hello.stream] < 0) fail_msg("rank %d, stream %d: %s", i, hello.stream, d.why);
        }
    }
    for (int i = 0; i < RANKS; i++)
        for (int j = 0; j < 4; j++) {
            int streams;
            expect_connected(fds[i][j], msi_listener_take(listener, 1, i % SIZE, i, j, &streams).fd);
        }
    too_many_untaken_connections_are_refused(state); /* all connections are free again */
}

static void a_refused_dial_says_why(void **state) {
    (void)state;
    struct msi_dial d;
    struct msi_hello hello = hello_from(0, 1, 0);
    hello.world++;
    assert_int_equal(dial(&d, &hello), -1);
    assert_status(d.status, MST_ERR_PROTOCOL);
    assert_contains(d.why, "another world");
    hello = hello_from(SIZE, 1, 0);
    assert_int_equal(dial(&d, &hello), -1);
    assert_contains(d.why, "does not know this rank");
}

static void a_dial_without_a_listener_may_be_retried(void **state) {
    (void)state;
    struct msi_dial d;
    struct msi_hello hello = hello_from(0, 1, 0);
    msi_listener_close(listener);
    listener = NULL;
    assert_int_equal(dial(&d, &hello), -1);
    assert_status(d.status, MST_ERR_UNREACHABLE);
    assert_contains(d.why, "127.0.0.1:");
    assert_ok(msi_listener_open(&address, NULL, world, ME, SIZE, &listener));
    int dialed = dial(&d, &hello);
    expect_connected(dialed, take(1, 0, 0));
}

/* Answers one connection with a byte, or closes it. */
static void dial_other_server(int byte, const char *why) {
    struct msi_dial d;
    struct msi_hello hello = hello_from(0, 1, 0);
    struct msi_address other = {.host = "127.0.0.1"};
    int server, accepted = -1;
    struct msi_stream stream = {.fd = -1};
    int64_t limit = msi_deadline(LIMIT_MS);
    assert_ok(msi_listen(&other, &server, &other.port));
    msi_dial_begin(&d, &other, NULL, &hello);
    while (msi_dial_progress(&d, &stream) == MSI_DIAL_PENDING) {
        uint8_t out = (uint8_t)byte, in[MSI_AUTH_HELLO];
        if (accepted < 0)
            accepted = accept4(server, NULL, NULL, SOCK_CLOEXEC);
        else if (byte >= 0)
            (void)!msi_send(accepted, &out, 1);
        else if (recv(accepted, in, sizeof in, MSG_DONTWAIT) > 0)
            shutdown(accepted, SHUT_RDWR);
        assert_true(msi_now() < limit);
    }
    msi_dial_end(&d);
    assert_int_equal(d.state, MSI_DIAL_FAILED);
    assert_contains(d.why, why);
    close(accepted);
    close(server);
}

static void a_dial_takes_only_a_welcome(void **state) {
    (void)state;
    dial_other_server('M', "malformed");
    dial_other_server(MSI_AUTH_VERSION, "another version");
    dial_other_server(-1, "without an answer");
}

/* Each thread is a rank that dials for its own groups and checks its connections. */
enum { DIALERS = 4, DIALS = 25 };
struct dialer {
    int from;
    int fds[DIALS];
};

static void *dial_many(void *context) {
    struct dialer *me = context;
    int64_t limit = msi_deadline(LIMIT_MS);
    for (int i = 0; i < DIALS; i++) {
        struct msi_dial d;
        struct msi_hello hello = hello_from(me->from, (uint64_t)i % 3, i);
        struct msi_stream stream = {.fd = -1};
        msi_dial_begin(&d, &address, NULL, &hello);
        while (msi_dial_progress(&d, &stream) == MSI_DIAL_PENDING && msi_now() < limit) {
            struct pollfd ask;
            ask.fd = msi_dial_descriptor(&d, &ask.events);
            poll(&ask, 1, 1000);
        }
        me->fds[i] = stream.fd;
        msi_dial_end(&d);
    }
    return NULL;
}

/* Two threads accept connections; each takes those of half of the ranks. */
struct taker {
    int first, fds[DIALERS / 2][DIALS];
};

static void *take_many(void *context) {
    struct taker *me = context;
    int64_t limit = msi_deadline(LIMIT_MS);
    for (int left = DIALERS / 2 * DIALS; left > 0 && msi_now() < limit;) {
        struct pollfd ask = {.fd = msi_listener_fd(listener), .events = POLLIN};
        msi_listener_progress(listener);
        for (int r = 0; r < DIALERS / 2; r++)
            for (int i = 0; i < DIALS; i++) {
                if (me->fds[r][i] >= 0) continue;
                me->fds[r][i] = take((uint64_t)i % 3, me->first + r, i);
                left -= me->fds[r][i] >= 0;
            }
        poll(&ask, 1, 1);
    }
    return NULL;
}

static void many_dial_and_take_at_once(void **state) {
    (void)state;
    struct dialer dialers[DIALERS];
    struct taker takers[2] = {{.first = 0}, {.first = DIALERS / 2}};
    pthread_t threads[DIALERS + 2];
    for (int i = 0; i < 2; i++) {
        memset(takers[i].fds, -1, sizeof takers[i].fds);
        threads[i] = start_thread(take_many, &takers[i]);
    }
    for (int i = 0; i < DIALERS; i++) {
        dialers[i].from = i;
        threads[2 + i] = start_thread(dial_many, &dialers[i]);
    }
    for (int i = 0; i < DIALERS + 2; i++) join_thread(threads[i]);
    for (int r = 0; r < DIALERS; r++)
        for (int i = 0; i < DIALS; i++) expect_connected(dialers[r].fds[i], takers[r / 2].fds[r % 2][i]);
}

#define listener_test(name) cmocka_unit_test_setup_teardown(name, open_listener, close_listener)

int main(void) {
    const struct CMUnitTest tests[] = {
        listener_test(a_connection_is_given_to_who_asks_for_it),
        listener_test(a_bell_rings_for_its_group_alone),
        listener_test(groups_ranks_and_channels_are_kept_apart),
        listener_test(the_last_connection_of_several_counts),
        listener_test(a_hello_may_come_in_pieces_and_is_not_overread),
        listener_test(a_wrong_hello_is_answered_and_closed),
        listener_test(secrets_are_compared),
        listener_test(a_short_hello_is_harmless),
        listener_test(silent_connections_are_closed_and_delay_no_other),
        listener_test(a_lack_of_descriptors_is_an_error_after_a_while),
        listener_test(many_unverified_connections_leave_space),
        listener_test(streams_are_kept_apart),
        listener_test(further_streams_take_no_place),
        listener_test(too_many_untaken_connections_are_refused),
        listener_test(a_refused_dial_says_why),
        listener_test(a_dial_without_a_listener_may_be_retried),
        listener_test(a_dial_takes_only_a_welcome),
        listener_test(many_dial_and_take_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
