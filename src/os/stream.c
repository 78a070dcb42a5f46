/* stream.c - see stream.h. */
#include "os/stream.h"

ssize_t msi_stream_send(const struct msi_stream *stream, const void *data, size_t n) {
    union {
        const void *read;
        void *any;
    } pointer = {data}; /* iovec serves both directions */
    if (!stream->tls) return msi_send(stream->fd, data, n);
    return stream->tls->ops->send(stream->tls, &(struct iovec){pointer.any, n}, 1);
}

ssize_t msi_stream_peek(const struct msi_stream *stream, void *data, size_t n) {
    return stream->tls ? stream->tls->ops->peek(stream->tls, data, n) : msi_recv_peek(stream->fd, data, n);
}

size_t msi_stream_held(const struct msi_stream *stream) {
    return stream->tls ? stream->tls->ops->held(stream->tls) : 0;
}

void msi_stream_close(struct msi_stream *stream) {
    if (stream->tls) stream->tls->ops->close(stream->tls);
    if (stream->fd >= 0) close(stream->fd);
    *stream = (struct msi_stream){.fd = -1};
}
