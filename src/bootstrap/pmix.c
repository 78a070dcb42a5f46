/* pmix.c - agreeing through PMIx where to meet. See pmix.h. */
#include "bootstrap/pmix.h"
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/launch.h"
#include "bootstrap/offer.h"
#include "bootstrap/pmix_abi.h"
#include "os/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum kind { INIT, TELL, FENCE, READ, LEAVE };

static const char *const doing[] = {
    [INIT] = "connecting to the launcher's PMIx",
    [TELL] = "telling the launcher's PMIx rank 0's address",
    [FENCE] = "waiting in the launcher's PMIx for all ranks to call mst_init",
    [READ] = "reading rank 0's address from the launcher's PMIx",
    [LEAVE] = "taking leave of the launcher's PMIx",
};

/* What one call of the library's is given and gives. */
struct request {
    enum kind kind;
    struct msi_pmix_proc self;       /* INIT writes it */
    uint32_t size;                   /* of the job, from INIT; 0: not known */
    char key[32];                    /* TELL, READ */
    char text[MSI_ADDRESS_TEXT_MAX]; /* what TELL puts and READ gets */
    int status;                      /* the library's */
};

/* A request on its way. Belongs to the thread that runs it and to the one that waits: the last frees it. */
struct call {
    struct request request;
    int wake_fd; /* rings when it is done */
    atomic_bool done;
    atomic_int owners;
};

/* All under the lock. The library is one for the process, and so is the talk with the server. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct msi_pmix_calls pmix;
static bool loaded;
static bool broken;  /* a call has failed, or may still be running */
static pid_t owner;  /* who called PMIx_Init; a forked child must not speak for its parent. 0: nobody */
static int meetings; /* so far; all ranks count alike */
static struct msi_pmix_proc self;
static uint32_t job_size;

static bool find_calls(void *library) {
    const struct {
        const char *name;
        void *call;
    } rows[] = {
        {"PMIx_Init", &pmix.init},
        {"PMIx_Finalize", &pmix.finalize},
        {"PMIx_Put", &pmix.put},
        {"PMIx_Commit", &pmix.commit},
        {"PMIx_Fence", &pmix.fence},
        {"PMIx_Get", &pmix.get},
        {"PMIx_Error_string", &pmix.error_string},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *found = dlsym(library, rows[i].name);
        if (!found) return false;
        memcpy(rows[i].call, &found, sizeof found); /* C has no cast from an object to a function */
    }
    return true;
}

/* NULL, or why the library cannot be used. It has threads of its own, so it is never unloaded. */
static const char *load(const char *name) {
    if (loaded) return NULL;
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library || !find_calls(library)) {
        const char *why = dlerror();
        return why ? why : "it cannot be loaded";
    }
    loaded = true;
    return NULL;
}

bool msi_pmix_load(const char *library) {
    pthread_mutex_lock(&lock);
    const char *why = load(library);
    if (why)
        msi_log(bootstrap, INFO, "the launcher's PMIx is not asked where rank 0 is: %s (MUSTER_PMIX_LIBRARY)",
                why);
    pthread_mutex_unlock(&lock);
    return !why;
}

/* What a process has put under the key, copied; a value of another type counts as none. */
static int get(const struct msi_pmix_proc *from, const char *key, uint16_t type,
               struct msi_pmix_value *value) {
    struct msi_pmix_value *got = NULL;
    int status = pmix.get(from, key, NULL, 0, &got);
    if (status != MSI_PMIX_SUCCESS) return status;
    if (!got || got->type != type) status = MSI_PMIX_ERR_NOT_FOUND;
    if (status == MSI_PMIX_SUCCESS) *value = *got;
    free(got);
    return status;
}

static int begin(struct request *request) {
    struct msi_pmix_value size;
    int status = pmix.init(&request->self, NULL, 0);
    if (status != MSI_PMIX_SUCCESS) return status;
    struct msi_pmix_proc job = request->self;
    job.rank = MSI_PMIX_RANK_WILDCARD;
    bool known = get(&job, MSI_PMIX_JOB_SIZE, MSI_PMIX_UINT32, &size) == MSI_PMIX_SUCCESS;
    request->size = known ? size.data.uint32 : 0;
    return status;
}

static int tell(struct request *request) {
    struct msi_pmix_value value = {.type = MSI_PMIX_STRING, .data.string = request->text};
    int status = pmix.put(MSI_PMIX_GLOBAL, request->key, &value);
    return status == MSI_PMIX_SUCCESS ? pmix.commit() : status;
}

/* Brings what rank 0 has told to all hosts. */
static int fence(void) {
    struct msi_pmix_info collect = {.key = MSI_PMIX_COLLECT_DATA,
                                    .value = {.type = MSI_PMIX_BOOL, .data.flag = true}};
    return pmix.fence(NULL, 0, &collect, 1);
}

static int read_told(struct request *request) {
    struct msi_pmix_value value;
    struct msi_pmix_proc zero = request->self;
    zero.rank = 0;
    int status = get(&zero, request->key, MSI_PMIX_STRING, &value);
    if (status != MSI_PMIX_SUCCESS) return status;
    snprintf(request->text, sizeof request->text, "%s", value.data.string ? value.data.string : "");
    free(value.data.string);
    return status;
}

static int perform(struct request *request) {
    switch (request->kind) {
    case INIT:
        return begin(request);
    case TELL:
        return tell(request);
    case FENCE:
        return fence();
    case READ:
        return read_told(request);
    case LEAVE:
        break;
    }
    return pmix.finalize(NULL, 0);
}

static void drop(struct call *call) {
    /* Release and acquire: whoever frees it sees that the other is through with it. */
    if (atomic_fetch_sub_explicit(&call->owners, 1, memory_order_acq_rel) > 1) return;
    close(call->wake_fd);
    free(call);
}

static void *run(void *argument) {
    struct call *call = argument;
    const uint64_t one = 1;
    call->request.status = perform(&call->request);
    atomic_store_explicit(&call->done, true, memory_order_release); /* meets the acquire in finish */
    while (write(call->wake_fd, &one, sizeof one) < 0 && errno == EINTR) continue;
    drop(call);
    return NULL;
}

static mst_status start(struct call *call) {
    pthread_t thread;
    call->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (call->wake_fd < 0) return msi_fail_errno(errno, "cannot make an eventfd for PMIx");
    atomic_init(&call->done, false);
    atomic_init(&call->owners, 2);
    int error = msi_thread_start(&thread, run, call); /* without signals also for threads of the library */
    if (!error) {
        pthread_detach(thread);
        return MST_OK;
    }
    close(call->wake_fd);
    return msi_fail_errno(error, "cannot start a thread for PMIx");
}

static mst_status finish(const struct call *call, const struct msi_wait *wait) {
    while (!atomic_load_explicit(&call->done, memory_order_acquire)) { /* meets the release in run */
        mst_status st = msi_wait_fd(wait, call->wake_fd, POLLIN, doing[call->request.kind]);
        if (st != MST_OK) return st;
    }
    return MST_OK;
}

/* Has a request carried out; what came of it is in *request then. */
static mst_status make(const struct msi_wait *wait, struct request *request) {
    struct call *call = malloc(sizeof *call);
    if (!call) return msi_fail_memory();
    call->request = *request;
    mst_status st = start(call);
    if (st != MST_OK) {
        free(call);
        return st;
    }
    st = finish(call, wait);
    if (st == MST_OK) *request = call->request;
    drop(call);
    return st;
}

/* The same; what the library refuses is a failure. */
static mst_status must(const struct msi_pmix_ask *ask, const struct msi_wait *wait, struct request *request) {
    mst_status st = make(wait, request);
    if (st != MST_OK || request->status == MSI_PMIX_SUCCESS) return st;
    return msi_fail(MST_ERR_PROTOCOL, ask->advice, "%s: it answered %s (%d)", doing[request->kind],
                    pmix.error_string(request->status), request->status);
}

/* At the end of the process, before libraries are taken apart; or when this one is unloaded. */
static void leave(void) {
    enum { PATIENCE_MS = 2000 };
    struct msi_wait wait = {msi_deadline(PATIENCE_MS), NULL};
    struct request request = {.kind = LEAVE};
    if (pthread_mutex_trylock(&lock)) return; /* another thread is still meeting */
    if (!broken && owner == getpid()) make(&wait, &request);
    broken = true;
    pthread_mutex_unlock(&lock);
}

static mst_status open_talk(const struct msi_pmix_ask *ask, const struct msi_wait *wait) {
    struct request request = {.kind = INIT};
    if (owner == getpid()) return MST_OK;
    if (owner)
        return msi_fail(
            MST_ERR_STATE, ask->advice,
            "process %d has spoken to the launcher's PMIx and forked this one, which cannot go on", owner);
    const char *why = load(ask->library);
    if (why)
        return msi_fail(MST_ERR_CONFIG, ask->advice,
                        "only the launcher's PMIx can tell where rank 0 is, but: %s (MUSTER_PMIX_LIBRARY)",
                        why);
    mst_status st = must(ask, wait, &request);
    if (st != MST_OK) return st;
    self = request.self;
    self.space[sizeof self.space - 1] = 0;
    job_size = request.size;
    owner = getpid();
    return atexit(leave) ? msi_fail_memory() : MST_OK;
}

/* Is this the job that the launcher's other variables speak of? */
static mst_status check_job(const struct msi_pmix_ask *ask) {
    bool same = self.rank == (uint32_t)ask->rank && (!job_size || job_size == (uint32_t)ask->size);
    return same ? MST_OK
                : msi_fail(MST_ERR_CONFIG, ask->advice,
                           "this process is rank %d of %d, but rank %u of %u to PMIx: its PMIX_ variables "
                           "are another launcher's",
                           ask->rank, ask->size, self.rank, job_size);
}

static mst_status meet(const struct msi_pmix_ask *ask, struct msi_address offer, const struct msi_wait *wait,
                       struct msi_address *met) {
    struct request request = {.kind = TELL};
    mst_status st = open_talk(ask, wait);
    if (st == MST_OK) st = check_job(ask);
    if (st == MST_OK && ask->rank == 0 && !offer.port) st = msi_offer_choose_port(self.space, &offer);
    if (st != MST_OK) return st;
    request.self = self;
    snprintf(request.key, sizeof request.key, "muster-%d", meetings++);
    if (ask->rank == 0) {
        msi_address_format(&offer, request.text);
        st = must(ask, wait, &request);
    }
    request.kind = FENCE;
    if (st == MST_OK) st = must(ask, wait, &request);
    request.kind = READ;
    if (st == MST_OK && ask->rank != 0) st = must(ask, wait, &request);
    return st == MST_OK ? msi_offer_parse(request.text, met) : st;
}

mst_status msi_pmix_meet(const struct msi_pmix_ask *ask, const struct msi_address *offer,
                         const struct msi_wait *wait, struct msi_address *met) {
    mst_status st = msi_wait_lock(wait, &lock, "waiting for another thread's talk with the launcher's PMIx");
    if (st != MST_OK) return st;
    st = broken
             ? msi_fail(MST_ERR_STATE, ask->advice, "an earlier talk with the launcher's PMIx was broken off")
             : meet(ask, *offer, wait, met);
    broken |= st != MST_OK;
    pthread_mutex_unlock(&lock);
    return st;
}
