/* sockets.c - the connections with a rank of another host while they are being made. See sockets.h. */
#include "wireup/sockets.h"
#include "base/error.h"
#include "transport/dial.h"
#include "transport/multi_socket.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BY_ITSELF = 4 }; /* streams that a host has where none were asked for */

_Static_assert((int)MSI_HELLO_STREAMS_MOST <= (int)MSI_MULTI_SOCKET_MOST,
               "whatever a hello says can be bundled");

struct stream {
    struct msi_link *link; /* NULL: not connected yet */
    bool dialling;
    struct msi_dial dial;
};

struct msi_sockets {
    int n, ready;
    /* Of the one that calls. */
    struct msi_address to;
    struct msi_hello hello;
    struct stream streams[];
};

static struct msi_sockets *new_streams(int n) {
    struct msi_sockets *made = calloc(1, sizeof *made + (size_t)n * sizeof *made->streams);
    if (made) made->n = n;
    return made;
}

/* Over loopback nothing limits a connection but the processor, and further ones only cost. */
static bool on_this_machine(const struct msi_comm *comm, const char *address) {
    return !strncmp(address, "127.", 4) || !strcmp(address, "::1") ||
           !strcmp(address, comm->endpoint->address);
}

int msi_sockets_wanted(const struct msi_comm *comm, int rank) {
    if (comm->streams) return comm->streams;
    if (on_this_machine(comm, comm->hooks.address(comm->hooks.context, rank))) return 1;
    int each = BY_ITSELF / comm->hosts.largest;
    return each > 1 ? each : 1;
}

struct msi_sockets *msi_sockets_connect(struct msi_comm *comm, int rank, int channel) {
    void *context = comm->hooks.context;
    struct msi_sockets *made = new_streams(msi_sockets_wanted(comm, rank));
    if (!made) return NULL;
    made->to.port = comm->ports[rank];
    snprintf(made->to.host, sizeof made->to.host, "%s", comm->hooks.address(context, rank));
    made->hello = (struct msi_hello){.world = comm->endpoint->world,
                                     .group = comm->number,
                                     .from = (uint32_t)comm->hooks.global(context, comm->rank),
                                     .to = (uint32_t)comm->hooks.global(context, rank),
                                     .channel = (uint16_t)channel,
                                     .streams = (uint8_t)made->n};
    return made;
}

/* Owns fd, also if it fails. */
static mst_status connect_stream(struct msi_sockets *streams, int i, int fd) {
    mst_status st = streams ? msi_link_open_tcp(fd, &streams->streams[i].link) : msi_fail_memory();
    if (st == MST_OK)
        streams->ready++;
    else
        close(fd);
    return st;
}

static mst_status dial_one(struct msi_sockets *streams, int i) {
    struct stream *s = &streams->streams[i];
    int fd = -1;
    if (!s->dialling) {
        streams->hello.stream = (uint8_t)i;
        msi_dial_begin(&s->dial, &streams->to, &streams->hello);
        s->dialling = true;
    }
    enum msi_dial_state state = msi_dial_progress(&s->dial, &fd);
    if (state == MSI_DIAL_PENDING) return MST_OK;
    s->dialling = false;
    if (state == MSI_DIAL_DONE) return connect_stream(streams, i, fd);
    msi_dial_end(&s->dial);
    if (s->dial.status == MST_ERR_UNREACHABLE) return MST_OK; /* again, until the deadline */
    return msi_fail(s->dial.status, NULL, "%s", s->dial.why);
}

mst_status msi_sockets_dial(struct msi_sockets *streams) {
    mst_status st = MST_OK;
    for (int i = 0; i < streams->n && st == MST_OK; i++)
        if (!streams->streams[i].link) st = dial_one(streams, i);
    return st;
}

mst_status msi_sockets_accept(struct msi_comm *comm, int rank, int channel, struct msi_sockets **streams) {
    struct msi_listener *listener = comm->endpoint->listener;
    int from = comm->hooks.global(comm->hooks.context, rank), n = *streams ? (*streams)->n : 1;
    mst_status st = MST_OK;
    msi_listener_progress(listener);
    for (int i = 0; i < n && st == MST_OK; i++) {
        if (*streams && (*streams)->streams[i].link) continue;
        int said, fd = msi_listener_take(listener, comm->number, from, channel, i, &said);
        if (fd < 0) continue;
        if (!*streams) *streams = new_streams(n = said);
        st = connect_stream(*streams, i, fd);
    }
    return st;
}

bool msi_sockets_complete(const struct msi_sockets *streams) {
    return streams->ready == streams->n;
}

mst_status msi_sockets_join(struct msi_sockets *streams, struct msi_link **link) {
    struct msi_link *links[MSI_MULTI_SOCKET_MOST];
    mst_status st = MST_OK;
    for (int i = 0; i < streams->n; i++) links[i] = streams->streams[i].link;
    if (streams->n == 1)
        *link = links[0];
    else
        st = msi_link_open_multi_socket(links, streams->n, MSI_MULTI_SOCKET_UNIT, link);
    if (st == MST_OK)
        for (int i = 0; i < streams->n; i++) streams->streams[i].link = NULL;
    return st;
}

int msi_sockets_descriptor(const struct msi_sockets *streams, short *events) {
    for (int i = 0; i < streams->n; i++)
        if (streams->streams[i].dialling) return msi_dial_descriptor(&streams->streams[i].dial, events);
    return -1;
}

void msi_sockets_free(struct msi_sockets *streams) {
    if (!streams) return;
    for (int i = 0; i < streams->n; i++) {
        struct stream *s = &streams->streams[i];
        if (s->link) s->link->ops->close(s->link);
        if (s->dialling) msi_dial_end(&s->dial);
    }
    free(streams);
}
