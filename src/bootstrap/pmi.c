/* pmi.c - agreeing through PMI where to meet. See pmi.h. */
#include "bootstrap/pmi.h"
#include "base/error.h"
#include "bootstrap/launch.h"
#include "bootstrap/offer.h"
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

enum { MEETINGS_MAX = 10000 };

static const char advice[] =
    "set MASTER_ADDR and MASTER_PORT for all ranks; the launcher's PMI is then not asked";

struct talk {
    const struct msi_wait *wait;
    char space[300]; /* the job's key value space */
    char line[MSI_PMI_LINE_MAX];
    struct msi_str reply;
};

/* The connection to the launcher, one for the process. All under the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int fd = -1;
static bool broken;        /* a reply may still come that nobody waits for */
static pid_t owner;        /* a forked child must not speak for its parent */
static ino_t socket_inode; /* which socket fd is; the number may be another's by now */

static mst_status read_line(struct talk *talk, const char *what) {
    size_t n = 0;
    for (;;) {
        mst_status st = msi_wait_fd(talk->wait, fd, POLLIN, what);
        if (st != MST_OK) return st;
        ssize_t got = recv(fd, talk->line + n, 1, MSG_DONTWAIT); /* nothing behind the line is ours to take */
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (got <= 0)
            return msi_fail(MST_ERR_PROTOCOL, advice, "the launcher has ended its PMI connection while %s",
                            what);
        if (talk->line[n] == '\n') break;
        if (++n == sizeof talk->line)
            return msi_fail(MST_ERR_PROTOCOL, advice, "the launcher's PMI sent a line of more than %zu bytes",
                            n - 1);
    }
    talk->reply = msi_str(talk->line, n);
    return MST_OK;
}

static mst_status write_line(struct talk *talk, const char *line, size_t n, const char *what) {
    while (n) {
        mst_status st = msi_wait_fd(talk->wait, fd, POLLOUT, what);
        if (st != MST_OK) return st;
        ssize_t sent = send(fd, line, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EPIPE)
            return msi_fail(
                MST_ERR_PROTOCOL, advice,
                "the launcher takes no more PMI from here: a program that ran before this one in its place, "
                "or MPI_Finalize, has taken leave");
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return msi_fail(MST_ERR_PROTOCOL, advice, "the launcher's PMI cannot be asked: %s",
                            strerror(errno));
        if (sent > 0) {
            line += sent;
            n -= (size_t)sent;
        }
    }
    return MST_OK;
}

/* Says a line and takes the answer, which must be of the kind. */
__attribute__((format(printf, 4, 5))) static mst_status ask(struct talk *talk, const char *kind,
                                                            const char *what, const char *format, ...) {
    char line[MSI_PMI_LINE_MAX];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    mst_status st = write_line(talk, line, (size_t)n, what);
    if (st == MST_OK) st = read_line(talk, what);
    if (st == MST_OK && !msi_pmi_is(talk->reply, kind))
        st = msi_fail(MST_ERR_PROTOCOL, advice, "the launcher's PMI answered '%.*s' while %s",
                      MSI_SHOW(talk->reply), what);
    return st;
}

static mst_status connect_port(struct talk *talk) {
    struct msi_url url;
    char text[MSI_ADDRESS_TEXT_MAX + 8];
    int id = -1;
    static const char what[] = "connecting to the launcher at PMI_PORT";
    snprintf(text, sizeof text, "tcp://%.*s", MSI_HOST_MAX, msi_variable("PMI_PORT"));
    mst_status st = msi_url_parse(text, &url);
    if (st == MST_OK) st = msi_variable_number("PMI_ID", 0, INT_MAX, &id);
    if (st == MST_OK) st = msi_connect(&url.address, false, talk->wait, &fd);
    if (st != MST_OK) return st;
    st = ask(talk, "initack", what, "cmd=initack pmiid=%d\n", id);
    /* The size, the rank and whether to debug follow, each on a line. */
    for (int i = 0; i < 3 && st == MST_OK; i++) st = read_line(talk, what);
    return st;
}

/* The socket that the launcher has left open for this process. */
static mst_status take_fd(void) {
    int given = -1, kind = 0;
    socklen_t len = sizeof kind;
    mst_status st = msi_variable_number("PMI_FD", 0, INT_MAX, &given);
    if (st != MST_OK) return st;
    if (getsockopt(given, SOL_SOCKET, SO_TYPE, &kind, &len) || kind != SOCK_STREAM)
        return msi_fail(
            MST_ERR_CONFIG, advice,
            "PMI_FD=%d is not the launcher's socket: this program was not started by it directly, or "
            "MPI_Finalize came before",
            given);
    fd = given;
    return MST_OK;
}

static ino_t inode(void) {
    struct stat about;
    return fstat(fd, &about) ? 0 : about.st_ino;
}

static mst_status open_talk(struct talk *talk) {
    mst_status st = MST_OK;
    if (fd < 0 || owner != getpid() || inode() != socket_inode) {
        fd = -1;
        st = msi_variable("PMI_FD") ? take_fd() : connect_port(talk);
        if (st == MST_OK)
            st = ask(talk, "response_to_init", "greeting the launcher",
                     "cmd=init pmi_version=1 pmi_subversion=1\n");
        owner = getpid();
        socket_inode = inode();
    }
    static const char what[] = "asking the launcher for its key value space";
    if (st == MST_OK) st = ask(talk, "my_kvsname", what, "cmd=get_my_kvsname\n");
    struct msi_str space = msi_pmi_field(talk->reply, "kvsname");
    if (st == MST_OK && (!space.p || space.n == 0 || space.n >= sizeof talk->space))
        st = msi_fail(MST_ERR_PROTOCOL, advice, "the launcher's PMI names no key value space");
    if (st == MST_OK) snprintf(talk->space, sizeof talk->space, "%.*s", (int)space.n, space.p);
    return st;
}

/* At the end of the process, or when the library is unloaded. */
__attribute__((destructor)) static void finalize(void) {
    enum { PATIENCE_MS = 2000 };
    struct msi_wait wait = {msi_deadline(PATIENCE_MS), NULL};
    struct talk talk = {.wait = &wait};
    /* After a failure the launcher shall see that this rank has left, and end the others. */
    if (fd < 0 || broken || owner != getpid() || inode() != socket_inode) return;
    ask(&talk, "finalize_ack", "taking leave of the launcher", "cmd=finalize\n");
    close(fd);
    fd = -1;
}

/* Reads the offer of the k-th meeting; *there tells whether it was made. */
static mst_status get_offer(struct talk *talk, int k, bool *there, char text[MSI_ADDRESS_TEXT_MAX]) {
    mst_status st = ask(talk, "get_result", "reading rank 0's address", "cmd=get kvsname=%s key=muster-%d\n",
                        talk->space, k);
    struct msi_str value = msi_pmi_field(talk->reply, "value");
    *there = st == MST_OK && msi_pmi_succeeded(talk->reply) && value.p;
    if (*there) snprintf(text, MSI_ADDRESS_TEXT_MAX, "%.*s", (int)value.n, value.p);
    return st;
}

/* How many meetings were there already, and the last one's offer. */
static mst_status last_offer(struct talk *talk, int *meetings, char text[MSI_ADDRESS_TEXT_MAX]) {
    bool there = true;
    mst_status st = MST_OK;
    for (*meetings = 0; *meetings < MEETINGS_MAX; ++*meetings) {
        st = get_offer(talk, *meetings, &there, text);
        if (st != MST_OK || !there) break;
    }
    return st;
}

static mst_status put_offer(struct talk *talk, struct msi_address offer) {
    char text[MSI_ADDRESS_TEXT_MAX];
    int k;
    mst_status st = last_offer(talk, &k, text);
    if (st == MST_OK && !offer.port) st = msi_offer_choose_port(talk->space, &offer);
    if (st != MST_OK) return st;
    st = ask(talk, "put_result", "telling the launcher rank 0's address",
             "cmd=put kvsname=%s key=muster-%d value=%s\n", talk->space, k, msi_address_format(&offer, text));
    if (st == MST_OK && !msi_pmi_succeeded(talk->reply))
        st = msi_fail(MST_ERR_PROTOCOL, advice, "the launcher's PMI did not take rank 0's address: '%.*s'",
                      MSI_SHOW(talk->reply));
    return st;
}

static mst_status meet(struct talk *talk, int rank, const struct msi_address *offer,
                       struct msi_address *met) {
    char text[MSI_ADDRESS_TEXT_MAX] = "";
    int meetings;
    mst_status st = open_talk(talk);
    if (st == MST_OK && rank == 0) st = put_offer(talk, *offer);
    if (st == MST_OK)
        st = ask(talk, "barrier_out", "waiting in the launcher's PMI for all ranks to call mst_init",
                 "cmd=barrier_in\n");
    if (st == MST_OK) st = last_offer(talk, &meetings, text);
    if (st != MST_OK) return st;
    if (!text[0])
        return msi_fail(MST_ERR_PROTOCOL, advice,
                        "the launcher's PMI has passed its barrier but not rank 0's address on");
    return msi_offer_parse(text, met);
}

mst_status msi_pmi_meet(int rank, const struct msi_address *offer, const struct msi_wait *wait,
                        struct msi_address *met) {
    struct talk talk = {.wait = wait};
    mst_status st = msi_wait_lock(wait, &lock, "waiting for another thread's talk with the launcher's PMI");
    if (st != MST_OK) return st;
    st = broken ? msi_fail(MST_ERR_STATE, advice, "an earlier talk with the launcher's PMI was broken off")
                : meet(&talk, rank, offer, met);
    broken |= st != MST_OK;
    pthread_mutex_unlock(&lock);
    return st;
}
