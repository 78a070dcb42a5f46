/* pmix.c - agreement on rank 0's address through PMIx. See pmi.h. */
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/pmi.h"
#include "bootstrap/pmix_abi.h"
#include "os/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum kind { INIT, PUT, FENCE, GET, FINALIZE };

static const char *const doing[] = {
    [INIT] = "connecting to the launcher's PMIx",
    [PUT] = "publishing rank 0's address through the launcher's PMIx",
    [FENCE] = "waiting in the launcher's PMIx for all ranks to call mst_init",
    [GET] = "reading rank 0's address from the launcher's PMIx",
    [FINALIZE] = "finalizing the launcher's PMIx",
};

/* Arguments and results of one call of the library. */
struct request {
    enum kind kind;
    struct msi_pmix_proc self;       /* INIT writes it */
    uint32_t size;                   /* of the job, from INIT; 0: not known */
    char key[32];                    /* PUT, GET */
    char text[MSI_ADDRESS_TEXT_MAX]; /* the value of PUT or GET */
    int status;                      /* the library's */
};

/* A request in progress, owned by the thread that runs it and the one that waits; the last one frees it. */
struct call {
    struct request request;
    int wake_fd; /* readable when it is done */
    atomic_bool done;
    atomic_int owners;
};

/* Protected by the lock. There is one library and one connection in a process. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct msi_pmix_calls pmix;
static bool loaded;
static bool broken;    /* a call has failed, or may still be running */
static pid_t owner;    /* the process that called PMIx_Init, 0: none; a forked child must not use it */
static int agreements; /* number so far, the same on all ranks */
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
        memcpy(rows[i].call, &found, sizeof found); /* C has no cast from an object to a function pointer */
    }
    return true;
}

/* Returns NULL, or the reason of a failure. The library has threads, so it is never unloaded. */
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
        msi_log(bootstrap, INFO, "not using the launcher's PMIx to find rank 0: %s (MUSTER_PMIX_LIBRARY)",
                why);
    pthread_mutex_unlock(&lock);
    return !why;
}

/* Copies the value that a process has put under the key; a value of another type is an error. */
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
    struct msi_pmix_proc all = request->self;
    all.rank = MSI_PMIX_RANK_WILDCARD;
    bool known = get(&all, MSI_PMIX_JOB_SIZE, MSI_PMIX_UINT32, &size) == MSI_PMIX_SUCCESS;
    request->size = known ? size.data.uint32 : 0;
    return status;
}

static int put(struct request *request) {
    struct msi_pmix_value value = {.type = MSI_PMIX_STRING, .data.string = request->text};
    int status = pmix.put(MSI_PMIX_GLOBAL, request->key, &value);
    return status == MSI_PMIX_SUCCESS ? pmix.commit() : status;
}

/* Distributes rank 0's value to all hosts. */
static int fence(void) {
    struct msi_pmix_info collect = {.key = MSI_PMIX_COLLECT_DATA,
                                    .value = {.type = MSI_PMIX_BOOL, .data.flag = true}};
    return pmix.fence(NULL, 0, &collect, 1);
}

static int get_address(struct request *request) {
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
    case PUT:
        return put(request);
    case FENCE:
        return fence();
    case GET:
        return get_address(request);
    case FINALIZE:
        break;
    }
    return pmix.finalize(NULL, 0);
}

static void drop(struct call *call) {
    /* Release and acquire: the owner that frees it sees that the other has finished. */
    if (atomic_fetch_sub_explicit(&call->owners, 1, memory_order_acq_rel) > 1) return;
    close(call->wake_fd);
    free(call);
}

static void *run(void *argument) {
    struct call *call = argument;
    const uint64_t one = 1;
    call->request.status = perform(&call->request);
    atomic_store_explicit(&call->done, true, memory_order_release); /* read by run_request */
    while (write(call->wake_fd, &one, sizeof one) < 0 && errno == EINTR) continue;
    drop(call);
    return NULL;
}

/* Runs a request on a thread; *request has the result. */
static mst_status run_request(const struct msi_wait *wait, struct request *request) {
    struct call *call = malloc(sizeof *call);
    pthread_t thread;
    if (!call) return msi_fail_memory();
    call->request = *request;
    call->wake_fd = eventfd(0, EFD_CLOEXEC);
    atomic_init(&call->done, false);
    atomic_init(&call->owners, 2);
    /* Threads of the library inherit the blocked signals. */
    int error = call->wake_fd < 0 ? errno : 0;
    if (!error) error = msi_thread_start(&thread, run, call);
    if (error) {
        if (call->wake_fd >= 0) close(call->wake_fd);
        free(call);
        return msi_fail_errno(error, "cannot start a thread for PMIx");
    }
    pthread_detach(thread);
    mst_status st = MST_OK;
    while (st == MST_OK && !atomic_load_explicit(&call->done, memory_order_acquire)) /* from run */
        st = msi_wait_fd(wait, call->wake_fd, POLLIN, doing[request->kind]);
    if (st == MST_OK) *request = call->request;
    drop(call);
    return st;
}

/* The same; fails if the library reports an error. */
static mst_status must(const struct msi_pmi_job *job, const struct msi_wait *wait, struct request *request) {
    mst_status st = run_request(wait, request);
    if (st != MST_OK || request->status == MSI_PMIX_SUCCESS) return st;
    return msi_fail(MST_ERR_PROTOCOL, job->advice, "%s: it answered %s (%d)", doing[request->kind],
                    pmix.error_string(request->status), request->status);
}

/* At exit. */
static void finalize(void) {
    enum { FINALIZE_MS = 2000 };
    struct msi_wait wait = {msi_deadline(FINALIZE_MS), NULL};
    struct request request = {.kind = FINALIZE};
    if (pthread_mutex_trylock(&lock)) return; /* another thread still uses it */
    if (!broken && owner == getpid()) run_request(&wait, &request);
    broken = true;
    pthread_mutex_unlock(&lock);
}

static mst_status open_session(const struct msi_pmi_job *job, const struct msi_wait *wait) {
    struct request request = {.kind = INIT};
    if (owner == getpid()) return MST_OK;
    if (owner)
        return msi_fail(
            MST_ERR_STATE, job->advice,
            "process %d has used the launcher's PMIx and forked this process, which cannot use it", owner);
    const char *why = load(job->library);
    if (why)
        return msi_fail(
            MST_ERR_CONFIG, job->advice,
            "rank 0's address is only known through the launcher's PMIx, but: %s (MUSTER_PMIX_LIBRARY)", why);
    mst_status st = must(job, wait, &request);
    if (st != MST_OK) return st;
    self = request.self;
    self.space[sizeof self.space - 1] = 0;
    job_size = request.size;
    owner = getpid();
    return atexit(finalize) ? msi_fail_memory() : MST_OK;
}

/* Fails if PMIx and the launcher's variables describe different jobs. */
static mst_status check_job(const struct msi_pmi_job *job) {
    bool same = self.rank == (uint32_t)job->rank && (!job_size || job_size == (uint32_t)job->size);
    return same ? MST_OK
                : msi_fail(MST_ERR_CONFIG, job->advice,
                           "this process is rank %d of %d, but rank %u of %u in PMIx: the PMIX_ variables "
                           "belong to another launcher",
                           job->rank, job->size, self.rank, job_size);
}

static mst_status agree(const struct msi_pmi_job *job, struct msi_address offer, const struct msi_wait *wait,
                        struct msi_address *agreed) {
    struct request request = {.kind = PUT};
    mst_status st = open_session(job, wait);
    if (st == MST_OK) st = check_job(job);
    if (st == MST_OK && job->rank == 0 && !offer.port) st = msi_offer_choose_port(self.space, &offer);
    if (st != MST_OK) return st;
    request.self = self;
    snprintf(request.key, sizeof request.key, "muster-%d", agreements++);
    if (job->rank == 0) {
        msi_address_format(&offer, request.text);
        st = must(job, wait, &request);
    }
    request.kind = FENCE;
    if (st == MST_OK) st = must(job, wait, &request);
    request.kind = GET;
    if (st == MST_OK && job->rank != 0) st = must(job, wait, &request);
    return st == MST_OK ? msi_offer_parse(request.text, agreed) : st;
}

mst_status msi_pmix_agree(const struct msi_pmi_job *job, const struct msi_address *offer,
                          const struct msi_wait *wait, struct msi_address *agreed) {
    mst_status st = msi_wait_lock(wait, &lock, "waiting for another thread that uses the launcher's PMIx");
    if (st != MST_OK) return st;
    st = broken
             ? msi_fail(MST_ERR_STATE, job->advice, "an earlier exchange with the launcher's PMIx has failed")
             : agree(job, *offer, wait, agreed);
    broken |= st != MST_OK;
    pthread_mutex_unlock(&lock);
    return st;
}
