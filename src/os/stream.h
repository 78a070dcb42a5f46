/*
 * stream.h - a connected, non-blocking socket, with TLS or without. auth/tls.h makes TLS sessions.
 *
 * recv and send have the results of the system calls: the number of bytes, 0 at the end of the stream, or -1
 * with errno. With TLS there are two more rules:
 *
 *  1. send counts bytes once the kernel has their records. After EAGAIN the caller sends the first
 *     msi_stream_held bytes again; others may follow them. Else it closes the stream.
 *  2. A session that reads ahead may hold bytes that poll does not report. Such a stream is polled only after
 *     recv has returned less than it was asked for.
 */
#ifndef MSI_OS_STREAM_H
#define MSI_OS_STREAM_H

#include "os/socket.h"

#include <unistd.h>

struct msi_tls;

struct msi_tls_ops {
    ssize_t (*recv)(struct msi_tls *tls, const struct iovec *parts, size_t n);
    ssize_t (*send)(struct msi_tls *tls, const struct iovec *parts, size_t n);
    /* Like recv, but the bytes stay. */
    ssize_t (*peek)(struct msi_tls *tls, void *data, size_t n);
    /* The bytes that were encrypted, and that send has not counted yet. */
    size_t (*held)(const struct msi_tls *tls);
    /* Frees the session, not the socket. */
    void (*close)(struct msi_tls *tls);
};

/* A TLS session begins with this. */
struct msi_tls {
    const struct msi_tls_ops *ops;
};

struct msi_stream {
    int fd;
    struct msi_tls *tls; /* NULL: the bytes are not encrypted */
};

static inline ssize_t msi_stream_recv_vector(const struct msi_stream *stream, struct iovec *parts, size_t n) {
    return stream->tls ? stream->tls->ops->recv(stream->tls, parts, n)
                       : msi_recv_vector(stream->fd, parts, n);
}

static inline ssize_t msi_stream_send_vector(const struct msi_stream *stream, struct iovec *parts, size_t n) {
    return stream->tls ? stream->tls->ops->send(stream->tls, parts, n)
                       : msi_send_vector(stream->fd, parts, n);
}

static inline ssize_t msi_stream_recv(const struct msi_stream *stream, void *data, size_t n) {
    if (!stream->tls) return msi_recv(stream->fd, data, n);
    return stream->tls->ops->recv(stream->tls, &(struct iovec){data, n}, 1);
}

ssize_t msi_stream_send(const struct msi_stream *stream, const void *data, size_t n);
ssize_t msi_stream_peek(const struct msi_stream *stream, void *data, size_t n);

/* After EAGAIN: how many of the bytes must be sent again? */
size_t msi_stream_held(const struct msi_stream *stream);

/* Closes session and socket. Accepts one whose fd is -1, which it has afterwards. */
void msi_stream_close(struct msi_stream *stream);

#endif
