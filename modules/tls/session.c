/*
 * session.c - the bytes of a TLS session. See session.h.
 *
 * A session encrypts into a buffer of its own, up to BATCH records at a time, and sends that with one system
 * call. Bytes count as sent when the buffer is empty again. It decrypts into the caller's buffers, if a
 * record fits there.
 */
#include "session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    BATCH = 8,              /* records that are sent with one call */
    AHEAD = 8,              /* records to read with one call */
    RECORDS_MOST = 1 << 24, /* with one key: RFC 8446 section 5.5 */
    END = -1,               /* of the stream: read_failed */
};

static void free_bytes(struct bytes *b) {
    free(b->data);
    *b = (struct bytes){0};
}

bool session_reserve(struct bytes *b, size_t n) {
    if (n <= b->size - b->end) return true;
    unsigned char *more = realloc(b->data, b->end + n);
    if (!more) return false;
    b->data = more;
    b->size = b->end + n;
    return true;
}

/* Links keep the buffer; the store has many idle connections. */
bool session_flush(struct session *s) {
    while (s->out.at < s->out.end) {
        ssize_t n = send(s->fd, s->out.data + s->out.at, s->out.end - s->out.at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        s->out.at += (size_t)n;
    }
    s->out.at = s->out.end = 0;
    if (!s->ahead) free_bytes(&s->out);
    return true;
}

static ssize_t report(const struct session *s) {
    errno = s->read_failed ? s->read_failed : EAGAIN;
    return s->read_failed == END ? 0 : -1;
}

/* Reads until there is a whole record in in; false: not yet, or never. A session that does not read ahead
 * takes only what belongs to the record. Later reads report a failure again: the kernel reports it once. */
static bool have_record(struct session *s, size_t *len) {
    for (;;) {
        struct bytes *in = &s->in;
        size_t have = in->end - in->at, need = RECORD_HEADER;
        *len = have >= RECORD_HEADER ? record_length(in->data + in->at) : 0;
        if (have >= RECORD_HEADER) need = *len;
        if (need == 0) s->read_failed = EBADMSG;
        if (have >= need) return need != 0;
        if (in->at) memmove(in->data, in->data + in->at, have);
        in->at = 0;
        in->end = have;
        if (!session_reserve(in, (s->ahead ? AHEAD * RECORD_MOST : RECORD_MOST) - have)) {
            errno = ENOMEM;
            return false;
        }
        ssize_t n = recv(s->fd, in->data + have, s->ahead ? in->size - have : need - have, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) s->read_failed = END;
        if (n < 0 && errno != EAGAIN) s->read_failed = errno;
        if (n <= 0) return false;
        in->end += (size_t)n;
    }
}

/* A record that is no data: a KeyUpdate (RFC 8446 section 4.6.3), or an alert, which ends the stream. */
static bool handle(struct session *s, enum record_type type, const unsigned char *p, size_t n) {
    static const unsigned char update[] = {24, 0, 0, 1};
    bool closes = type == RECORD_ALERT && n == 2 && p[1] == SSL_AD_CLOSE_NOTIFY;
    if (type == RECORD_HANDSHAKE && n == 5 && !memcmp(p, update, 4) && p[4] <= 1) {
        if (p[4]) s->since_rekey = s->rekey; /* the other end asks for it */
        if (record_next_keys(&s->reads, false)) return true;
    }
    if (type == RECORD_ALERT && n == 2) s->alert = p[1];
    s->read_failed = closes ? END : EBADMSG;
    return false;
}

/* Decrypts the next record: to out, if it fits there; else the bytes stay in plain. *n: those in out. */
static bool next_record(struct session *s, unsigned char *out, size_t room, size_t *n) {
    size_t len;
    *n = 0;
    if (!have_record(s, &len)) return false;
    unsigned char *record = s->in.data + s->in.at, *own = record + RECORD_HEADER;
    unsigned char *to = len - RECORD_MORE <= room ? out : own;
    enum record_type type;
    ssize_t bytes = record_open(&s->reads, record, len, to, &type);
    if (bytes < 0) s->read_failed = EBADMSG;
    if (bytes < 0) return false;
    s->in.at += len;
    if (type != RECORD_DATA) return handle(s, type, to, (size_t)bytes);
    if (to == out)
        *n = (size_t)bytes;
    else
        s->plain = (struct bytes){.data = own, .end = (size_t)bytes};
    return true;
}

static size_t take_plain(struct session *s, void *out, size_t room) {
    size_t n = s->plain.end - s->plain.at;
    if (n > room) n = room;
    if (n) memcpy(out, s->plain.data + s->plain.at, n);
    s->plain.at += n;
    return n;
}

static ssize_t receive(struct msi_tls *tls, const struct iovec *parts, size_t n) {
    struct session *s = (struct session *)tls;
    ssize_t got = 0;
    bool more = !s->read_failed;
    for (size_t i = 0; i < n && more; i++) {
        for (size_t done = 0; done < parts[i].iov_len && more;) {
            unsigned char *to = (unsigned char *)parts[i].iov_base + done;
            size_t room = parts[i].iov_len - done, k = take_plain(s, to, room);
            /* Else the rest of a record would be left, which poll does not report. */
            if (!k) more = (!got || s->ahead || room >= RECORD_PLAIN) && next_record(s, to, room, &k);
            done += k;
            got += (ssize_t)k;
        }
    }
    if (!s->ahead && s->in.at == s->in.end && s->plain.at == s->plain.end) free_bytes(&s->in);
    return got || more ? got : report(s);
}

static ssize_t peek(struct msi_tls *tls, void *data, size_t n) {
    struct session *s = (struct session *)tls;
    size_t k, left;
    while (s->plain.at == s->plain.end)
        if (s->read_failed || !next_record(s, NULL, 0, &k)) return report(s);
    left = s->plain.at;
    k = take_plain(s, data, n);
    s->plain.at = left;
    return (ssize_t)k;
}

/* Announces new keys, and uses them from now on. */
static bool change_keys(struct session *s) {
    static const unsigned char update[] = {24, 0, 0, 1, 0};
    struct iovec part = {(void *)(uintptr_t)update, sizeof update};
    struct record_place at = {.parts = &part, .n = 1};
    if (!session_reserve(&s->out, record_size(&at))) return false;
    size_t len = record_seal(&s->writes, RECORD_HANDSHAKE, &at, s->out.data + s->out.end);
    s->out.end += len;
    s->since_rekey = 0;
    return len && record_next_keys(&s->writes, true);
}

/* Encrypts up to BATCH records; false: OpenSSL has failed. */
static bool encrypt(struct session *s, struct record_place *at) {
    bool used_up = s->since_rekey >= s->rekey || s->writes.number >= RECORDS_MOST;
    if (used_up && !change_keys(s)) return false;
    for (int i = 0; i < BATCH && at->i < at->n; i++) {
        if (!session_reserve(&s->out, record_size(at))) return false;
        size_t len = record_seal(&s->writes, RECORD_DATA, at, s->out.data + s->out.end);
        if (!len) return false;
        s->out.end += len;
        s->held += len - RECORD_MORE;
        s->since_rekey += len - RECORD_MORE;
    }
    return true;
}

static ssize_t transmit(struct msi_tls *tls, const struct iovec *parts, size_t n) {
    struct session *s = (struct session *)tls;
    struct record_place at = {.parts = parts, .n = n};
    ssize_t sent = 0;
    record_skip(&at, s->held);                          /* these were encrypted before */
    if (at.i == n && at.done) s->write_failed = EPROTO; /* they are not sent again: rule 1 of stream.h */
    while (!s->write_failed) {
        if (!session_flush(s)) {
            if (errno == EAGAIN) return sent ? sent : -1;
            s->write_failed = errno;
            break;
        }
        sent += (ssize_t)s->held;
        s->held = 0;
        if (at.i == n) return sent;
        if (!encrypt(s, &at)) s->write_failed = EPROTO;
    }
    errno = s->write_failed;
    return sent ? sent : -1;
}

static size_t held(const struct msi_tls *tls) {
    return ((const struct session *)tls)->held;
}

const struct msi_tls_ops session_ops = {
    .recv = receive, .send = transmit, .peek = peek, .held = held, .close = session_close};
