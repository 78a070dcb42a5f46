/* sockets.c - see sockets.h. */
#include "wireup/sockets.h"
#include "base/error.h"
#include "os/socket.h"
#include "transport/dial.h"
#include "transport/multi_socket.h"
#include "wireup/endpoint.h"

#include <stdio.h>
#include <stdlib.h>

enum { BY_ITSELF = 4 }; /* sockets that a host has with another, unless a setting says how many */

_Static_assert((int)MSI_HELLO_STREAMS_MOST <= (int)MSI_MULTI_SOCKET_MOST,
               "a link takes as many sockets as a hello can announce");

struct socket {
    struct msi_link *link; /* NULL: not connected yet */
    bool dialling;
    int64_t unanswered; /* since when no host answers at the address; 0: one does */
    struct msi_dial dial;
};

struct msi_sockets {
    int n, ready;
    /* Of the rank that connects. */
    struct msi_address to;
    struct msi_auth *auth;
    struct msi_hello hello;
    struct socket sockets[];
};

static struct msi_sockets *new_sockets(int n) {
    struct msi_sockets *made = calloc(1, sizeof *made + (size_t)n * sizeof *made->sockets);
    if (made) made->n = n;
    return made;
}

/*
 * What the setting says; if it is automatic (0), this rank's share of those that its host has with the other.
 * Over loopback only the processor limits a connection, and more connections only cost.
 */
static int sockets_wanted(const struct msi_comm *comm, int rank) {
    if (comm->config.sockets) return comm->config.sockets;
    const char *address = comm->hooks.address(comm->hooks.context, rank);
    bool here = !strncmp(address, "127.", 4) || !strcmp(address, "::1") ||
                !strcmp(address, comm->config.endpoint->address);
    int each = BY_ITSELF / comm->ranks.hosts.largest;
    return each > 1 && !here ? each : 1;
}

struct msi_sockets *msi_sockets_connect(struct msi_peers *peers, int rank, int channel, int port) {
    const struct msi_comm *comm = peers->comm;
    void *context = comm->hooks.context;
    struct msi_sockets *made = new_sockets(sockets_wanted(comm, rank));
    if (!made) return NULL;
    made->to.port = port;
    made->auth = &comm->config.endpoint->auth;
    snprintf(made->to.host, sizeof made->to.host, "%s", comm->hooks.address(context, rank));
    made->hello = (struct msi_hello){.world = comm->config.endpoint->world,
                                     .group = comm->number,
                                     .from = (uint32_t)comm->hooks.global(context, comm->rank),
                                     .to = (uint32_t)comm->hooks.global(context, rank),
                                     .channel = (uint16_t)channel,
                                     .streams = (uint8_t)made->n};
    return made;
}

/* Owns the stream, also if it fails. */
static mst_status connect_socket(struct msi_sockets *sockets, int i, struct msi_stream stream) {
    mst_status st = sockets ? msi_link_open_tcp(stream, &sockets->sockets[i].link) : msi_fail_memory();
    if (st == MST_OK)
        sockets->ready++;
    else
        msi_stream_close(&stream);
    return st;
}

static mst_status dial_one(struct msi_sockets *sockets, int i) {
    struct socket *s = &sockets->sockets[i];
    struct msi_stream stream;
    if (!s->dialling) {
        sockets->hello.stream = (uint8_t)i;
        msi_dial_begin(&s->dial, &sockets->to, sockets->auth, &sockets->hello);
        s->dialling = true;
    }
    enum msi_dial_state state = msi_dial_progress(&s->dial, &stream);
    if (state == MSI_DIAL_PENDING) return MST_OK;
    s->dialling = false;
    if (state == MSI_DIAL_DONE) return connect_socket(sockets, i, stream);
    msi_dial_end(&s->dial);
    if (s->dial.status != MST_ERR_UNREACHABLE)
        return msi_fail(s->dial.status, *s->dial.remedy ? s->dial.remedy : NULL, "%s", s->dial.why);
    if (!s->dial.unanswered) s->unanswered = 0;
    if (s->dial.unanswered && !s->unanswered) s->unanswered = msi_now();
    if (s->unanswered && msi_now() - s->unanswered >= msi_socket_timeout() * INT64_C(1000000000))
        return msi_fail(MST_ERR_PEER_LOST, NULL, "%s", s->dial.why);
    return MST_OK; /* again, until the deadline */
}

mst_status msi_sockets_dial(struct msi_sockets *sockets) {
    mst_status st = MST_OK;
    for (int i = 0; i < sockets->n && st == MST_OK; i++)
        if (!sockets->sockets[i].link) st = dial_one(sockets, i);
    return st;
}

mst_status msi_sockets_accept(struct msi_peers *peers, int rank, int channel, struct msi_sockets **sockets) {
    const struct msi_comm *comm = peers->comm;
    struct msi_listener *listener = comm->config.endpoint->listener;
    int from = comm->hooks.global(comm->hooks.context, rank), n = *sockets ? (*sockets)->n : 1;
    mst_status st = MST_OK;
    msi_listener_progress(listener);
    for (int i = 0; i < n && st == MST_OK; i++) {
        if (*sockets && (*sockets)->sockets[i].link) continue;
        int said;
        struct msi_stream stream = msi_listener_take(listener, comm->number, from, channel, i, &said);
        if (stream.fd < 0) continue;
        if (!*sockets) *sockets = new_sockets(n = said);
        st = connect_socket(*sockets, i, stream);
    }
    return st == MST_OK ? msi_listener_check(listener) : st;
}

bool msi_sockets_complete(const struct msi_sockets *sockets) {
    return sockets->ready == sockets->n;
}

mst_status msi_sockets_join(struct msi_sockets *sockets, struct msi_link **link) {
    struct msi_link *links[MSI_MULTI_SOCKET_MOST];
    mst_status st = MST_OK;
    for (int i = 0; i < sockets->n; i++) links[i] = sockets->sockets[i].link;
    if (sockets->n == 1)
        *link = links[0];
    else
        st = msi_link_open_multi_socket(links, sockets->n, MSI_MULTI_SOCKET_UNIT, link);
    if (st == MST_OK)
        for (int i = 0; i < sockets->n; i++) sockets->sockets[i].link = NULL;
    return st;
}

int msi_sockets_descriptor(struct msi_sockets *sockets, short *events) {
    for (int i = 0; i < sockets->n; i++)
        if (sockets->sockets[i].dialling) return msi_dial_descriptor(&sockets->sockets[i].dial, events);
    return -1;
}

void msi_sockets_free(struct msi_sockets *sockets) {
    if (!sockets) return;
    for (int i = 0; i < sockets->n; i++) {
        struct socket *s = &sockets->sockets[i];
        if (s->link) s->link->ops->close(s->link);
        if (s->dialling) msi_dial_end(&s->dial);
    }
    free(sockets);
}
