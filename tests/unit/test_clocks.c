/* test_clocks.c - ticks against the clock, what questions and answers say of another host's clock, and
 * asking for real. */
#include "harness.h"

#include "os/clock.h"
#include "os/socket.h"
#include "os/tick.h"
#include "prof/clock/clock_server.h"
#include "prof/clock/fit.h"
#include "prof/clock/zero.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define MS INT64_C(1000000)

static void ticks_tell_the_clocks_time(void **state) {
    (void)state;
    msi_tick_begin();
    struct msi_tick_look first = msi_tick_look();
    for (int64_t end = msi_now() + 20 * MS; msi_now() < end;) continue;
    struct msi_tick_look last = msi_tick_look();
    assert_true(last.tick > first.tick);
    for (int i = 0; i < 100; i++) {
        int64_t before = msi_now();
        uint64_t tick = msi_tick();
        int64_t after = msi_now(), told = msi_tick_ns(first, last, tick);
        assert_true(told >= before - 20000 &&
                    told <= after + 20000); /* a thousandth of what the looks lie apart */
    }
    assert_in_range(msi_tick_ns(first, last, first.tick), first.ns - 1,
                    first.ns + 1); /* the product is rounded */
    assert_int_equal(msi_tick_ns(first, last, last.tick), last.ns);
}

static void the_fastest_answer_of_a_burst_counts(void **state) {
    (void)state;
    struct msi_fit fit = {0};
    int64_t offset, error;
    assert_false(msi_fit_burst(&fit));
    assert_false(msi_fit_offset(&fit, 0, &offset, &error));
    msi_fit_answer(&fit, 1000, 9000, 5000);  /* 6000 ahead, give or take 2000 */
    msi_fit_answer(&fit, 6000, 13100, 6200); /* 7000, give or take 100 */
    msi_fit_answer(&fit, 8000, 1, 7000);     /* it came before it was asked */
    msi_fit_answer(&fit, 9000, -1, 9001);
    assert_true(msi_fit_burst(&fit));
    assert_true(msi_fit_offset(&fit, 6100, &offset, &error));
    assert_int_equal(offset, 7000);
    assert_int_equal(error, 101);
    assert_false(msi_fit_burst(&fit)); /* nothing was asked since */
}

/* Their clock runs 40 millionths faster; ways there and back take 20 to 220 us, at random and not alike. */
static void the_truth_is_within_the_error(void **state) {
    (void)state;
    struct msi_fit fit = {0};
    const double speed = 40e-6;
    const int64_t ahead = INT64_C(123456789012);
    int64_t now = 5 * MS, offset = 0, error = 0;
    srand(7);
    for (int burst = 0; burst < 400; burst++, now += 500 * MS) {
        for (int i = 0; i < 8; i++) {
            int64_t there = 20000 + rand() % 200000, back = 20000 + rand() % 200000, asked = now + i * MS;
            int64_t at = asked + there;
            msi_fit_answer(&fit, asked, at + ahead + (int64_t)((double)at * speed), at + back);
        }
        assert_true(msi_fit_burst(&fit));
        for (int64_t when = now; when < now + 500 * MS; when += 100 * MS) {
            assert_true(msi_fit_offset(&fit, when, &offset, &error));
            int64_t truth = ahead + (int64_t)((double)when * speed);
            assert_true(llabs(offset - truth) <= error);
            assert_true(error < 200000); /* about a way's worth, however long it goes on */
        }
    }
    assert_true(fit.slope > 0.8 * speed && fit.slope < 1.2 * speed);
}

/* An answer may come too late for the first burst of questions; the client then asks again. */
static void wait_for_offset(struct msi_clock_client *client, int64_t *offset, int64_t *error) {
    struct msi_wait wait = {msi_deadline(20000), NULL};
    while (!msi_clock_client_offset(client, msi_now(), offset, error))
        assert_ok(msi_wait_pause(&wait, 10, "the first answer"));
}

static void a_clock_is_followed(void **state) {
    (void)state;
    struct msi_clock_server *keeper;
    struct msi_clock_client *followers[3];
    struct msi_address address = {.host = "127.0.0.1"};
    assert_int_equal(msi_clock_server_open("127.0.0.1", 4, NULL, &keeper, &address.port), MST_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(msi_clock_client_open(&address, NULL, &followers[i]), MST_OK);
    for (int i = 0; i < 3; i++) {
        int64_t offset, error;
        wait_for_offset(followers[i], &offset, &error);
        assert_true(llabs(offset) <= error); /* it is one clock in truth */
    }
    for (int i = 0; i < 3; i++) msi_clock_client_close(followers[i]);
    msi_clock_server_close(keeper);
}

/* Who sends something else is hung up on, and nobody else notices. */
static void strangers_do_no_harm(void **state) {
    (void)state;
    struct msi_clock_server *keeper;
    struct msi_clock_client *clock_client;
    struct msi_address address = {.host = "127.0.0.1"};
    struct msi_wait wait = {msi_deadline(5000), NULL};
    int fds[6];
    assert_int_equal(msi_clock_server_open("127.0.0.1", 4, NULL, &keeper, &address.port), MST_OK);
    for (int i = 0; i < 6; i++) assert_int_equal(msi_connect(&address, false, &wait, &fds[i]), MST_OK);
    for (int i = 0; i < 6; i++) msi_send(fds[i], "abc", 3);
    char byte;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(msi_wait_fd(&wait, fds[i], POLLIN, "the end"), MST_OK);
        assert_true(msi_recv(fds[i], &byte, 1) <= 0);
        close(fds[i]);
    }
    int64_t offset, error;
    assert_int_equal(msi_clock_client_open(&address, NULL, &clock_client), MST_OK);
    wait_for_offset(clock_client, &offset, &error);
    msi_clock_client_close(clock_client);
    msi_clock_server_close(keeper);
}

/* Clocks that say what no clock does: no answer counts, and nothing overflows. */
static void senseless_clocks_are_not_believed(void **state) {
    (void)state;
    static const int64_t senseless[] = {INT64_MAX, INT64_MAX / 2, MSI_TIME_MOST + 1, -1, INT64_MIN};
    struct msi_fit fit = {0};
    int64_t offset, error;
    for (size_t i = 0; i < COUNT_OF(senseless); i++) msi_fit_answer(&fit, 1000, senseless[i], 2000);
    msi_fit_answer(&fit, -5, 1000, 2000);
    msi_fit_answer(&fit, 1000, 1000, INT64_MAX);
    assert_false(msi_fit_burst(&fit));
    for (int i = 0; i < 2 * MSI_FIT_KEPT; i++) { /* the farthest that are believed, in turns */
        msi_fit_answer(&fit, 1000 + i, i % 2 ? MSI_TIME_MOST : 0, 2000 + i);
        assert_true(msi_fit_burst(&fit));
        assert_true(msi_fit_offset(&fit, MSI_TIME_MOST, &offset, &error));
        assert_true(llabs(offset) <= 2 * MSI_TIME_MOST && error >= 0);
    }
}

static int bound_socket(struct msi_address *address) {
    int fd;
    assert_ok(msi_listen(address, &fd, &address->port));
    return fd;
}

/* Answers each question with a time that makes no sense. */
static void *answer_nonsense(void *context) {
    int door = *(int *)context, fd;
    struct msi_wait wait = {msi_deadline(20000), NULL};
    unsigned char message[16];
    if (msi_wait_fd(&wait, door, POLLIN, "somebody who asks") != MST_OK) return NULL;
    fd = accept(door, NULL, NULL);
    while (recv(fd, message, 8, MSG_WAITALL) == 8) {
        memset(message + 8, 0xff, 8);
        message[15] = 0x7f;
        if (send(fd, message, sizeof message, MSG_NOSIGNAL) != sizeof message) break;
    }
    close(fd);
    return NULL;
}

static void a_keeper_that_tells_nonsense(void **state) {
    (void)state;
    struct msi_address address = {.host = "127.0.0.1"};
    struct msi_clock_client *clock_client;
    int64_t offset, error;
    int door = bound_socket(&address);
    pthread_t thread = start_thread(answer_nonsense, &door);
    assert_ok(msi_clock_client_open(&address, NULL, &clock_client));
    assert_false(msi_clock_client_offset(clock_client, msi_now(), &offset, &error));
    msi_clock_client_close(clock_client);
    join_thread(thread);
    close(door);
}

static int64_t processor_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Whoever knocks while no descriptor is left is let in later, and until then nobody burns the processor. */
static void without_descriptors(void **state) {
    (void)state;
    struct msi_clock_server *keeper;
    struct msi_address address = {.host = "127.0.0.1"};
    struct msi_wait wait = {msi_deadline(20000), NULL};
    struct rlimit usual, none;
    int fd;
    assert_ok(msi_clock_server_open("127.0.0.1", 4, NULL, &keeper, &address.port));
    struct caught_stderr caught = begin_stderr();
    fd = socket(AF_INET, SOCK_STREAM, 0);
    getrlimit(RLIMIT_NOFILE, &usual);
    none = (struct rlimit){(rlim_t)fd + 1, usual.rlim_max};
    int spare[64], n = 0; /* descriptors below that were free */
    setrlimit(RLIMIT_NOFILE, &none);
    while (n < 64 && (spare[n] = dup(fd)) >= 0) n++;
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)address.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(send(fd, "12345678", 8, MSG_NOSIGNAL), 8);
    int64_t before = processor_ms();
    assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 500), 0);
    int64_t burnt = processor_ms() - before;
    setrlimit(RLIMIT_NOFILE, &usual);
    assert_ok(msi_wait_fd(&wait, fd, POLLIN, "an answer"));
    char *said = end_stderr(caught);
    assert_true(burnt < 250);
    assert_int_equal(count_of(said, "cannot accept a connection of another host"), 1);
    free(said);
    while (n > 0) close(spare[--n]);
    close(fd);
    msi_clock_server_close(keeper);
}

static void the_start_of_a_world_is_checked(void **state) {
    (void)state;
    char text[MSI_CLOCK_ZERO_MAX];
    struct msi_clock_zero zero;
    msi_clock_zero_write(text, &(struct msi_clock_zero){MSI_TIME_MOST, INT64_MAX / 2, 65535});
    assert_true(msi_clock_zero_read(msi_cstr(text), &zero));
    assert_true(zero.at == MSI_TIME_MOST && zero.unix_ns == INT64_MAX / 2 && zero.port == 65535);
    assert_true(msi_clock_zero_read(msi_cstr("0 0 0"), &zero));
    static const char *const wrong[] = {"",
                                        "1",
                                        "1 1",
                                        "x 1 1",
                                        "-1 1 1",
                                        "1 -1 1",
                                        "1 1 -1",
                                        "1 1 65536",
                                        "2305843009213693952 1 1",
                                        "1 4611686018427387904 1"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) assert_false(msi_clock_zero_read(msi_cstr(wrong[i]), &zero));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_tell_the_clocks_time),
        cmocka_unit_test(the_fastest_answer_of_a_burst_counts),
        cmocka_unit_test(the_truth_is_within_the_error),
        cmocka_unit_test(a_clock_is_followed),
        cmocka_unit_test(strangers_do_no_harm),
        cmocka_unit_test(senseless_clocks_are_not_believed),
        cmocka_unit_test(a_keeper_that_tells_nonsense),
        cmocka_unit_test(without_descriptors),
        cmocka_unit_test(the_start_of_a_world_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
