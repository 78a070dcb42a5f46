/* pmi.c - agreement on rank 0's address through PMI. See pmi.h. */
#include "bootstrap/pmi.h"
#include "base/error.h"
#include "bootstrap/launch.h"
#include "os/socket.h"
#include "wire/pmi.h"
#include "wire/url.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { AGREEMENTS_MAX = 10000 };

static const char advice[] = "set MASTER_ADDR and MASTER_PORT for all ranks, which makes PMI unnecessary";

struct session {
    const struct msi_wait *wait;
    char space[300]; /* the job's key-value space */
    char line[MSI_PMI_LINE_MAX];
    struct msi_str reply;
};

/* The connection to the launcher, one for the process. All under the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int fd = -1;
static bool broken;        /* out of sync: a reply may still arrive */
static pid_t owner;        /* the process that opened it; a forked child must not use it */
static ino_t socket_inode; /* of fd; the number may have been reused */

mst_status msi_offer_choose_port(const char *job, struct msi_address *offer) {
    enum { PORTS_TRIED = 64 };
    mst_status st = MST_OK;
    for (int i = 0; i < PORTS_TRIED; i++) {
        int listener, port;
        offer->port = msi_launch_port(job) + i;
        st = msi_listen(offer, &listener, &port);
        if (st == MST_OK) close(listener);
        if (st != MST_ERR_PORT_TAKEN) break;
    }
    return st;
}

mst_status msi_offer_parse(const char *text, struct msi_address *offer) {
    char url[MSI_ADDRESS_TEXT_MAX + 8];
    struct msi_url parsed;
    snprintf(url, sizeof url, "tcp://%.*s", MSI_ADDRESS_TEXT_MAX, text);
    mst_status st = msi_url_parse(url, &parsed);
    if (st == MST_OK) *offer = parsed.address;
    return st;
}

static mst_status read_line(struct session *session, const char *what) {
    size_t n = 0;
    for (;;) {
        mst_status st = msi_wait_fd(session->wait, fd, POLLIN, what);
        if (st != MST_OK) return st;
        ssize_t got = recv(fd, session->line + n, 1, MSG_DONTWAIT); /* must not read beyond the line */
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (got <= 0)
            return msi_fail(MST_ERR_PROTOCOL, advice, "the launcher has closed its PMI connection while %s",
                            what);
        if (session->line[n] == '\n') break;
        if (++n == sizeof session->line)
            return msi_fail(MST_ERR_PROTOCOL, advice, "the launcher's PMI sent a line of more than %zu bytes",
                            n - 1);
    }
    session->reply = msi_str(session->line, n);
    return MST_OK;
}

static mst_status write_line(struct session *session, const char *line, size_t n, const char *what) {
    while (n) {
        mst_status st = msi_wait_fd(session->wait, fd, POLLOUT, what);
        if (st != MST_OK) return st;
        ssize_t sent = send(fd, line, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EPIPE)
            return msi_fail(
                MST_ERR_PROTOCOL, advice,
                "the launcher accepts no PMI requests: MPI_Finalize or an earlier program of this rank has "
                "finalized PMI");
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return msi_fail(MST_ERR_PROTOCOL, advice, "cannot write to the launcher's PMI: %s",
                            strerror(errno));
        if (sent > 0) {
            line += sent;
            n -= (size_t)sent;
        }
    }
    return MST_OK;
}

/* Sends a line and reads the reply, which must be of that kind. */
__attribute__((format(printf, 4, 5))) static mst_status ask(struct session *session, const char *kind,
                                                            const char *what, const char *format, ...) {
    char line[MSI_PMI_LINE_MAX];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    mst_status st = write_line(session, line, (size_t)n, what);
    if (st == MST_OK) st = read_line(session, what);
    if (st == MST_OK && !msi_pmi_is(session->reply, kind))
        st = msi_fail(MST_ERR_PROTOCOL, advice, "the launcher's PMI answered '%.*s' while %s",
                      MSI_SHOW(session->reply), what);
    return st;
}

static mst_status connect_port(struct session *session) {
    struct msi_address address;
    int id = -1;
    static const char what[] = "connecting to the launcher at PMI_PORT";
    mst_status st = msi_offer_parse(msi_variable("PMI_PORT"), &address);
    if (st == MST_OK) st = msi_variable_number("PMI_ID", 0, INT_MAX, &id);
    if (st == MST_OK) st = msi_connect(&address, false, session->wait, &fd);
    if (st != MST_OK) return st;
    st = ask(session, "initack", what, "cmd=initack pmiid=%d\n", id);
    /* The size, the rank and whether to debug follow, each on a line. */
    for (int i = 0; i < 3 && st == MST_OK; i++) st = read_line(session, what);
    return st;
}

/* The socket that the launcher has left open for this process. */
static mst_status use_fd(void) {
    int given = -1, kind = 0;
    socklen_t len = sizeof kind;
    mst_status st = msi_variable_number("PMI_FD", 0, INT_MAX, &given);
    if (st != MST_OK) return st;
    if (getsockopt(given, SOL_SOCKET, SO_TYPE, &kind, &len) || kind != SOCK_STREAM)
        return msi_fail(
            MST_ERR_CONFIG, advice,
            "PMI_FD=%d is not the launcher's socket: the launcher did not start this program directly, or "
            "MPI_Finalize has closed it",
            given);
    fd = given;
    return MST_OK;
}

static ino_t inode(void) {
    struct stat about;
    return fstat(fd, &about) ? 0 : about.st_ino;
}

static mst_status open_session(struct session *session) {
    mst_status st = MST_OK;
    if (fd < 0 || owner != getpid() || inode() != socket_inode) {
        fd = -1;
        st = msi_variable("PMI_FD") ? use_fd() : connect_port(session);
        if (st == MST_OK)
            st = ask(session, "response_to_init", "opening PMI", "cmd=init pmi_version=1 pmi_subversion=1\n");
        owner = getpid();
        socket_inode = inode();
    }
    static const char what[] = "asking the launcher for its key-value space";
    if (st == MST_OK) st = ask(session, "my_kvsname", what, "cmd=get_my_kvsname\n");
    struct msi_str space = msi_pmi_field(session->reply, "kvsname");
    if (st == MST_OK && (!space.p || space.n == 0 || space.n >= sizeof session->space))
        st = msi_fail(MST_ERR_PROTOCOL, advice, "the launcher's PMI names no key-value space");
    if (st == MST_OK) snprintf(session->space, sizeof session->space, "%.*s", (int)space.n, space.p);
    return st;
}

/* At the end of the process, or when the library is unloaded. */
__attribute__((destructor)) static void finalize(void) {
    enum { FINALIZE_MS = 2000 };
    struct msi_wait wait = {msi_deadline(FINALIZE_MS), NULL};
    struct session session = {.wait = &wait};
    /* After a failure PMI is not finalized, so that the launcher ends the other ranks. */
    if (fd < 0 || broken || owner != getpid() || inode() != socket_inode) return;
    ask(&session, "finalize_ack", "finalizing PMI", "cmd=finalize\n");
    close(fd);
    fd = -1;
}

/* The number of agreements so far, and the last offer. */
static mst_status last_offer(struct session *session, int *count, char text[MSI_ADDRESS_TEXT_MAX]) {
    for (*count = 0; *count < AGREEMENTS_MAX; ++*count) {
        mst_status st = ask(session, "get_result", "reading rank 0's address",
                            "cmd=get kvsname=%s key=muster-%d\n", session->space, *count);
        if (st != MST_OK) return st;
        struct msi_str value = msi_pmi_field(session->reply, "value");
        if (!msi_pmi_succeeded(session->reply) || !value.p) break;
        msi_str_copy(value, text, MSI_ADDRESS_TEXT_MAX);
    }
    return MST_OK;
}

static mst_status put_offer(struct session *session, struct msi_address offer) {
    char text[MSI_ADDRESS_TEXT_MAX];
    int k;
    mst_status st = last_offer(session, &k, text);
    if (st == MST_OK && !offer.port) st = msi_offer_choose_port(session->space, &offer);
    if (st != MST_OK) return st;
    st = ask(session, "put_result", "publishing rank 0's address",
             "cmd=put kvsname=%s key=muster-%d value=%s\n", session->space, k,
             msi_address_format(&offer, text));
    if (st == MST_OK && !msi_pmi_succeeded(session->reply))
        st = msi_fail(MST_ERR_PROTOCOL, advice, "the launcher's PMI did not accept rank 0's address: '%.*s'",
                      MSI_SHOW(session->reply));
    return st;
}

static mst_status agree(struct session *session, int rank, const struct msi_address *offer,
                        struct msi_address *agreed) {
    char text[MSI_ADDRESS_TEXT_MAX] = "";
    int count;
    mst_status st = open_session(session);
    if (st == MST_OK && rank == 0) st = put_offer(session, *offer);
    if (st == MST_OK)
        st = ask(session, "barrier_out", "waiting in the launcher's PMI for all ranks to call mst_init",
                 "cmd=barrier_in\n");
    if (st == MST_OK) st = last_offer(session, &count, text);
    if (st != MST_OK) return st;
    if (!text[0])
        return msi_fail(MST_ERR_PROTOCOL, advice,
                        "the launcher's PMI passed its barrier but did not deliver rank 0's address");
    return msi_offer_parse(text, agreed);
}

mst_status msi_pmi_agree(const struct msi_pmi_job *job, const struct msi_address *offer,
                         const struct msi_wait *wait, struct msi_address *agreed) {
    struct session session = {.wait = wait};
    mst_status st = msi_wait_lock(wait, &lock, "waiting for another thread that uses the launcher's PMI");
    if (st != MST_OK) return st;
    st = broken ? msi_fail(MST_ERR_STATE, advice, "an earlier exchange with the launcher's PMI has failed")
                : agree(&session, job->rank, offer, agreed);
    broken |= st != MST_OK;
    pthread_mutex_unlock(&lock);
    return st;
}
