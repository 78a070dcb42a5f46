/*
 * server_kit.h - a store server in a process of its own, raw sockets against it, and a client that behaves
 * well and must notice nothing of what the others do.
 */
#ifndef TESTS_CONFORM_SERVER_KIT_H
#define TESTS_CONFORM_SERVER_KIT_H

#include "harness.h"

#include "wire/cursor.h"
#include "wire/store_msg.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <muster/muster.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { REPLY_LIMIT_MS = 10000, PROMPT_MS = 3000 };

struct served {
    pid_t pid;
    int port, stop, log; /* stop: closing it ends the server; log: its standard error */
    mst_store *good;
};

static inline void serve_in_child(const struct served *server, int port_pipe, int stop_pipe,
                                  const char *const *environment, int max_files) {
    mst_store *store;
    char byte;
    struct rlimit limit = {(rlim_t)max_files, (rlim_t)max_files};
    alarm(120);
    for (int fd = 3; fd < 1024; fd++) /* what a failed test left open is not the server's */
        if (fd != server->log && fd != port_pipe && fd != stop_pipe) close(fd);
    dup2(server->log, STDERR_FILENO);
    setenv("MUSTER_LOG", "warn", 1);
    setenv("MUSTER_STORE_LINGER_MS", "0", 1);
    setenv("MUSTER_STORE_OPEN", "1", 1); /* for raw sockets */
    for (; *environment; environment += 2) setenv(environment[0], environment[1], 1);
    if (mst_store_open("tcp://127.0.0.1:0", &store, .is_master = true) != MST_OK) _exit(2);
    if (max_files && setrlimit(RLIMIT_NOFILE, &limit)) _exit(3);
    int port = mst_store_port(store);
    if (write(port_pipe, &port, sizeof port) != sizeof port) _exit(4);
    while (read(stop_pipe, &byte, 1) > 0) {
    }
    mst_store_free(store);
    _exit(0);
}

/* environment: names and values in turn, then NULL. */
static inline struct served serve(const char *const *environment, int max_files) {
    struct served server = {.port = 0};
    int port_pipe[2], stop_pipe[2];
    char path[] = "/tmp/muster-server-XXXXXX", url[64];
    server.log = mkstemp(path);
    assert_true(server.log >= 0);
    unlink(path);
    assert_int_equal(pipe2(port_pipe, O_CLOEXEC), 0);
    assert_int_equal(pipe2(stop_pipe, O_CLOEXEC), 0);
    fflush(NULL);
    server.pid = fork();
    if (server.pid == 0) {
        close(stop_pipe[1]);
        serve_in_child(&server, port_pipe[1], stop_pipe[0], environment, max_files);
    }
    close(port_pipe[1]);
    close(stop_pipe[0]);
    server.stop = stop_pipe[1];
    assert_int_equal(read(port_pipe[0], &server.port, sizeof server.port), sizeof server.port);
    close(port_pipe[0]);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", server.port);
    assert_ok(mst_store_open(url, &server.good, .timeout_ms = REPLY_LIMIT_MS));
    return server;
}

#define SERVE(...) serve((const char *const[]){__VA_ARGS__, NULL, NULL}, 0)

static inline char *server_log(const struct served *server) {
    off_t size = lseek(server->log, 0, SEEK_END);
    char *text = calloc(1, (size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(pread(server->log, text, (size_t)size, 0), size);
    return text;
}

/* The server's log must say this by now, or soon. */
static inline void assert_logged(const struct served *server, const char *part) {
    int64_t limit = msi_deadline(REPLY_LIMIT_MS);
    for (;;) {
        char *text = server_log(server);
        bool found = strstr(text, part) != NULL;
        if (!found && msi_now() > limit) fail_msg("'%s' is not in the server's log:\n%s", part, text);
        free(text);
        if (found) return;
        poll(NULL, 0, 5);
    }
}

/* Nothing that was done to the server may hold up its other clients. */
static inline void assert_serves_others(const struct served *server) {
    mst_bytes value;
    int64_t begin = msi_now();
    assert_ok(mst_store_set(server->good, "good", "as ever", 7));
    assert_ok(mst_store_get(server->good, "good", &value));
    assert_string_equal(value.data, "as ever");
    mst_bytes_free(&value);
    assert_true(ms_since(begin) < PROMPT_MS);
}

/* Most kilobytes the server ever had in memory. */
static inline long server_peak_kb(const struct served *server) {
    char path[64], line[128];
    long peak = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)server->pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) sscanf(line, "VmHWM: %ld", &peak);
    fclose(file);
    assert_true(peak > 0);
    return peak;
}

/* The server must have lived through it all, and end without complaint. */
static inline void end_server(struct served *server) {
    int status;
    assert_serves_others(server);
    mst_store_free(server->good);
    close(server->stop);
    assert_int_equal(waitpid(server->pid, &status, 0), server->pid);
    char *text = server_log(server);
    if (status != 0) print_error("%s\n", text);
    free(text);
    close(server->log);
    assert_int_equal(status, 0);
}

static inline int connect_raw(const struct served *server) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)server->port)};
    struct timeval limit = {REPLY_LIMIT_MS / 1000, 0};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static inline void send_bytes(int fd, const void *bytes, size_t n) {
    assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
}

/* Sends what was put into the buffer and empties it. */
static inline void send_buf(int fd, struct msi_buf *buf) {
    send_bytes(fd, buf->data, buf->len);
    msi_buf_free(buf);
}

#define receive(fd, bytes) receive_bytes(fd, bytes, sizeof(bytes) - 1)

/* The next n bytes must be these. */
static inline void receive_bytes(int fd, const char *wanted, size_t n) {
    char got[256];
    for (size_t done = 0; done < n;) {
        ssize_t k = recv(fd, got, n - done < sizeof got ? n - done : sizeof got, 0);
        assert_true(k > 0);
        assert_memory_equal(got, wanted + done, (size_t)k);
        done += (size_t)k;
    }
}

/* The server must end this connection without a further byte; closes it here too. */
static inline void assert_ended(int fd) {
    char byte;
    ssize_t n = recv(fd, &byte, 1, 0);
    bool reset = n < 0 && errno == ECONNRESET;
    if (n != 0 && !reset) fail_msg("the connection was not ended (%zd, %s)", n, strerror(errno));
    close(fd);
}

/* Nothing may have come by now. */
static inline void assert_quiet(int fd) {
    char byte;
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
}

static inline void put_validate(struct msi_buf *out) {
    msi_buf_add_u8(out, 0);
    msi_put_u32(out, MSI_STORE_MAGIC);
}

/* Requests in dialect C: an opcode and fields. */
static inline void put_request(struct msi_buf *out, struct msi_store_req req) {
    assert_true(msi_store_encode(out, MSI_DIALECT_C, &req));
}

static inline int connect_c(const struct served *server) {
    struct msi_buf out = {0};
    int fd = connect_raw(server);
    put_validate(&out);
    send_buf(fd, &out);
    return fd;
}

#endif
