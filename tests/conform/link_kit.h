/*
 * link_kit.h - runs a case over every kind of link, with and without faults, and checks the byte streams. A
 * new transport gets all tests with an entry in link_bases.
 */
#ifndef TESTS_LINK_KIT_H
#define TESTS_LINK_KIT_H

#include "harness.h"

#include "auth/tls.h"
#include "fault_link.h"
#include "os/socket.h"
#include "transport/multi_socket.h"

#include <muster/status.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum { LIMIT_MS = 50000, PLAIN_AND_FAULTS = 6 };

/* Divides the amount of work in sanitizer builds. */
#if defined(__SANITIZE_THREAD__)
enum { SLOWER = 10 };
#elif defined(__SANITIZE_ADDRESS__)
enum { SLOWER = 4 };
#else
enum { SLOWER = 1 };
#endif

/* The two ends of a link; both are the same for a link to itself. */
struct ends {
    struct msi_link *end[2];
    void *memory; /* shm */
    const char *host;
};

/* Deterministic numbers, the same on both sides of a test. */
struct dice {
    uint64_t state;
};

static inline uint64_t roll(struct dice *dice, uint64_t sides) {
    dice->state = dice->state * 6364136223846793005u + 1442695040888963407u;
    return (dice->state >> 33) % sides;
}

/* Mostly small, sometimes none or a single byte, sometimes up to largest. */
static inline size_t roll_size(struct dice *dice, size_t largest) {
    switch (roll(dice, 8)) {
    case 0:
        return 0;
    case 1:
        return 1;
    case 2:
        return roll(dice, largest + 1);
    case 3:
        return roll(dice, 40000 < largest ? 40000 : largest + 1);
    default:
        return roll(dice, 200 < largest ? 200 : largest + 1);
    }
}

/* The byte at an offset of a stream. */
static inline char byte_at(uint64_t stream, uint64_t at) {
    uint64_t x = (at + (stream << 40)) * 0x9e3779b97f4a7c15u;
    return (char)(x >> 56);
}

static inline void fill(char *data, size_t n, uint64_t stream, uint64_t at) {
    for (size_t i = 0; i < n; i++) data[i] = byte_at(stream, at + i);
}

static inline void check_bytes(const char *data, size_t n, uint64_t stream, uint64_t at) {
    for (size_t i = 0; i < n; i++)
        if (data[i] != byte_at(stream, at + i)) fail_msg("byte %llu is wrong", (unsigned long long)(at + i));
}

static inline bool advance(struct msi_link *link) {
    return link->ops->progress(link);
}

static inline void close_link(struct msi_link *link) {
    link->ops->close(link);
}

static inline bool open_self(struct ends *ends) {
    assert_ok(msi_link_open_self(&ends->end[0]));
    ends->end[1] = ends->end[0];
    return true;
}

static inline bool open_shm(struct ends *ends) {
    size_t size = msi_link_shm_bytes();
    ends->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(ends->memory != MAP_FAILED);
    for (int i = 0; i < 2; i++) assert_ok(msi_link_open_shm(ends->memory, i, NULL, NULL, &ends->end[i]));
    return true;
}

/* The same, with large messages read from the sender's memory, if the system allows it. */
static inline bool open_cma(struct ends *ends) {
    open_shm(ends);
    for (int i = 0; i < 2; i++) msi_link_shm_copies(ends->end[i], MSI_COPY_ALWAYS, MSI_COPY_AUTO);
    return true;
}

/* As on oversubscribed processors. */
static inline bool open_wide(struct ends *ends) {
    open_shm(ends);
    for (int i = 0; i < 2; i++) {
        msi_link_shm_copies(ends->end[i], MSI_COPY_NEVER, MSI_COPY_ALWAYS);
        msi_link_shm_widen(ends->end[i]);
    }
    return true;
}

/* Two connected sockets; false if the machine has no such address. */
static inline bool connect_sockets(const char *host, int fds[2]) {
    struct msi_address address = {.port = 0};
    struct msi_wait wait = {msi_deadline(LIMIT_MS), NULL};
    int listening;
    snprintf(address.host, sizeof address.host, "%s", host);
    if (msi_listen(&address, &listening, &address.port) != MST_OK) return false;
    assert_ok(msi_connect(&address, false, &wait, &fds[0]));
    fds[1] = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    assert_true(fds[1] >= 0);
    msi_socket_tune(fds[1]);
    close(listening);
    return true;
}

static inline bool open_tcp(struct ends *ends, const char *host) {
    int fds[2];
    if (!connect_sockets(host, fds)) return false;
    ends->host = host;
    for (int i = 0; i < 2; i++)
        assert_ok(msi_link_open_tcp((struct msi_stream){.fd = fds[i]}, &ends->end[i]));
    return true;
}

/* With TLS; false if its module was not built. */
static inline bool open_tls(struct ends *ends) {
    static const uint8_t psk[MSI_TLS_PSK] = {1, 2, 3};
    static struct msi_tls_context *context; /* of all tests */
    const struct msi_tls_config config = {
        .certificate = "", .key = "", .authority = "", .name = "", .rekey = 100000};
    const struct msi_tls_module *module;
    char why[MSI_TLS_WHY];
    int fds[2];
    if (msi_tls_load(getenv("MUSTER_BACKEND_PATH"), &module) != MST_OK) return false;
    if (!context) context = module->open(&config, why);
    if (!context) fail_msg("%s", why);
    assert_true(connect_sockets("127.0.0.1", fds));
    struct msi_tls *tls[2];
    for (int i = 0; i < 2; i++) {
        struct msi_tls_begin begin = {.fd = fds[i], .server = i, .ahead = true, .host = "", .psk = psk};
        assert_non_null(tls[i] = module->begin(context, &begin));
    }
    for (int done = 0, i = 0; done < 2; i = !i) {
        enum msi_tls_state state = module->handshake(tls[i], why);
        if (state == MSI_TLS_FAILED) fail_msg("%s", why);
        done = state == MSI_TLS_DONE ? done + 1 : 0;
    }
    ends->host = "127.0.0.1";
    for (int i = 0; i < 2; i++)
        assert_ok(msi_link_open_tcp((struct msi_stream){fds[i], tls[i]}, &ends->end[i]));
    return true;
}

static inline bool open_tcp4(struct ends *ends) {
    return open_tcp(ends, "127.0.0.1");
}

static inline bool open_tcp6(struct ends *ends) {
    return open_tcp(ends, "::1");
}

/* A multi-socket link over three sockets with this unit. */
static inline bool open_multi_socket(struct ends *ends, size_t unit, const struct link_faults *faults) {
    struct msi_link *links[2][3];
    for (int i = 0; i < 3; i++) {
        struct ends one = {.memory = NULL};
        if (!open_tcp4(&one)) return false;
        ends->host = one.host;
        for (int side = 0; side < 2; side++) {
            links[side][i] = one.end[side];
            struct link_faults own = {.seed = (uint64_t)i};
            if (faults) own = *faults;
            own.seed += (uint64_t)(7 * i + side);
            if (faults) assert_ok(open_fault_link(one.end[side], &own, &links[side][i]));
        }
    }
    for (int side = 0; side < 2; side++)
        assert_ok(msi_link_open_multi_socket(links[side], 3, unit, &ends->end[side]));
    return true;
}

static inline bool open_several(struct ends *ends) {
    return open_multi_socket(ends, MSI_MULTI_SOCKET_UNIT, NULL);
}

static inline bool open_multi_socket_fine(struct ends *ends) {
    return open_multi_socket(ends, 100, NULL);
}

static inline bool open_multi_socket_faulty(struct ends *ends) {
    struct link_faults faults = {
        .seed = 9, .most_bytes = 20000, .delay_calls = 3, .stall_percent = 10, .stall_calls = 20};
    return open_multi_socket(ends, 1000, &faults);
}

struct link_base {
    const char *name;
    bool (*open)(struct ends *ends);
    bool two_ends;
};
static const struct link_base link_bases[] = {
    {"self", open_self, false},
    {"shm", open_shm, true},
    {"tcp over IPv4", open_tcp4, true},
    {"tcp over IPv6", open_tcp6, true},
    {"tcp with TLS", open_tls, true},
    {"shm, CMA", open_cma, true},
    {"shm, wide", open_wide, true},
    {"multi_socket", open_several, true},
    {"multi_socket of short units", open_multi_socket_fine, true},
    {"multi_socket of misbehaving links", open_multi_socket_faulty, true},
};

/* 0: none. */
static inline struct link_faults faults_of(int number) {
    switch (number) {
    case 1:
        return (struct link_faults){.seed = 1, .most_bytes = 3};
    case 2:
        return (struct link_faults){.seed = 2, .most_bytes = 30000, .delay_calls = 4};
    case 3:
        return (struct link_faults){.seed = 3, .stall_percent = 20, .stall_calls = 9};
    case 4:
        return (struct link_faults){.seed = 4, .delay_us = 40};
    default:
        return (struct link_faults){.seed = 1000 + (uint64_t)number,
                                    .most_bytes = 700,
                                    .delay_calls = 2,
                                    .stall_percent = 5,
                                    .stall_calls = 30};
    }
}

static inline void wrap(struct ends *ends, bool two_ends, const struct link_faults *faults) {
    struct link_faults here = *faults;
    for (int i = 0; i < (two_ends ? 2 : 1); i++) {
        assert_ok(open_fault_link(ends->end[i], &here, &ends->end[i]));
        here.seed += 77;
    }
    if (!two_ends) ends->end[1] = ends->end[0];
}

static inline bool open_ends(const struct link_base *base, int fault, struct ends *ends) {
    *ends = (struct ends){.memory = NULL};
    if (!base->open(ends)) return false;
    struct link_faults faults = faults_of(fault);
    if (fault) wrap(ends, base->two_ends, &faults);
    return true;
}

/* Closes the ends that are not NULL. */
static inline void close_ends(struct ends *ends) {
    if (ends->end[0]) close_link(ends->end[0]);
    if (ends->end[1] && ends->end[1] != ends->end[0]) close_link(ends->end[1]);
    if (ends->memory) munmap(ends->memory, msi_link_shm_bytes());
}

/* Runs a case over every link, plain and with every set of faults. */
static inline void over_all(void (*body)(struct ends *ends, const struct link_base *base, int fault),
                            bool self_too) {
    for (size_t i = 0; i < COUNT_OF(link_bases); i++) {
        for (int fault = 0; fault < PLAIN_AND_FAULTS; fault++) {
            struct ends ends;
            if (!link_bases[i].two_ends && !self_too) continue;
            if (!open_ends(&link_bases[i], fault, &ends)) continue;
            body(&ends, &link_bases[i], fault);
            close_ends(&ends);
        }
    }
}

/* Advances both ends until the transfer is done. The second end may be NULL. */
static inline void run_until_done(struct msi_link *a, struct msi_link *b,
                                  const struct msi_transfer *transfer) {
    int64_t limit = msi_deadline(LIMIT_MS);
    while (!msi_transfer_done(transfer)) {
        advance(a);
        if (b) advance(b);
        assert_status(a->status, MST_OK);
        assert_true(msi_now() < limit);
    }
}

/* Advances both ends until the first has failed. */
static inline void run_until_failed(struct msi_link *link, struct msi_link *other) {
    int64_t limit = msi_deadline(LIMIT_MS);
    while (link->status == MST_OK) {
        advance(link);
        if (other) advance(other);
        assert_true(msi_now() < limit);
    }
    assert_false(advance(link));
    assert_false(msi_link_busy(link));
}

#endif
