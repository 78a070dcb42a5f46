/* error.c - the thread's last failure. See error.h. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { MESSAGE_MAX = 1024, REMEDY_MAX = 512, LINE_MAX_LENGTH = 2048, OPERATION_MAX = 64 };

struct call {
    const char *operation;
    mst_site site;
    int rank;
    uint64_t sequence;
};

struct failure {
    mst_error_info info;
    struct msi_ranks missing;
    char operation[OPERATION_MAX];
    char message[MESSAGE_MAX];
    char remedy[REMEDY_MAX];
    char line[LINE_MAX_LENGTH];
};

static _Thread_local uint64_t failures;
static _Thread_local struct call call = {.rank = -1};
static _Thread_local struct failure last = {
    .info = {.rank = -1, .culprit = -1, .operation = "", .message = "", .remedy = ""}};

void msi_call_begin(const char *operation, const mst_site *site, int rank) {
    call.operation = operation;
    call.site = site ? *site : (mst_site){0};
    call.rank = rank;
    call.sequence = 0;
}

void msi_call_rank(int rank) {
    call.rank = rank;
}

void msi_call_sequence(uint64_t sequence) {
    call.sequence = sequence;
}

uint64_t msi_call_enter_rank_state(int ranks, int dtype, size_t count) {
    return msi_rank_state_enter(msi_rank_state_on(), call.operation, &call.site, call.sequence,
                                msi_rank_state_size_dtype(ranks, dtype), count);
}

const char *msi_call_show(char *out, size_t size) {
    const char *name = call.operation ? call.operation : "a call";
    if (call.site.file)
        snprintf(out, size, "%s at %s:%d", name, call.site.file, call.site.line);
    else
        snprintf(out, size, "%s", name);
    return out;
}

int msi_call_get_rank(void) {
    return call.rank;
}

static mst_status record(mst_status status, const char *remedy) {
    failures++;
    snprintf(last.operation, sizeof last.operation, "%s", call.operation ? call.operation : "");
    snprintf(last.remedy, sizeof last.remedy, "%s", remedy ? remedy : "");
    last.info = (mst_error_info){
        .status = status,
        .rank = call.rank,
        .culprit = -1,
        .operation = last.operation,
        .sequence = call.sequence,
        .site = call.site,
        .message = last.message,
        .remedy = last.remedy,
        .missing = last.missing.ranks,
    };
    last.missing.n = 0;
    if (call.operation) msi_rank_state_error(&last.info);
    return status;
}

mst_status msi_fail(mst_status status, const char *remedy, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(last.message, sizeof last.message, format, args);
    va_end(args);
    return record(status, remedy);
}

mst_status msi_blame(mst_status status, int culprit) {
    last.info.culprit = culprit;
    if (call.operation) msi_rank_state_blame(culprit);
    return status;
}

mst_status msi_blame_missing(mst_status status, const struct msi_ranks *missing) {
    last.missing = *missing;
    last.info.n_missing = missing->n;
    return missing->n ? msi_blame(status, missing->ranks[0]) : status;
}

const struct msi_ranks *msi_get_missing(void) {
    return &last.missing;
}

uint64_t msi_failures(void) {
    return failures;
}

void msi_error_save(struct msi_saved_error *error, mst_status status) {
    error->status = status;
    error->culprit = last.info.culprit;
    error->missing = last.missing;
    snprintf(error->message, sizeof error->message, "%s", last.info.message);
    snprintf(error->remedy, sizeof error->remedy, "%s", last.info.remedy);
}

mst_status msi_error_restore(const struct msi_saved_error *error) {
    mst_status st = msi_fail(error->status, error->remedy, "%s", error->message);
    msi_blame_missing(st, &error->missing);
    return msi_blame(st, error->culprit);
}

void msi_call_aside(void (*run)(void *), void *context) {
    struct call outer = call;
    mst_error_info info = last.info;
    if (info.status == MST_OK) { /* the usual case: the texts need not be kept */
        run(context);
        last.info = info;
    } else {
        struct failure failure = last;
        run(context);
        last = failure;
    }
    call = outer;
}

mst_status msi_fail_memory(void) {
    return msi_fail(MST_ERR_MEMORY, NULL, "out of memory");
}

mst_status msi_fail_errno(int error, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(last.message, sizeof last.message, format, args);
    va_end(args);
    char limit[48] = "";
    struct rlimit files;
    bool no_files = error == EMFILE && !getrlimit(RLIMIT_NOFILE, &files);
    if (no_files)
        snprintf(limit, sizeof limit, " (RLIMIT_NOFILE is %llu)", (unsigned long long)files.rlim_cur);
    if (n >= 0 && (size_t)n < sizeof last.message)
        snprintf(last.message + n, sizeof last.message - (size_t)n, ": %s%s", strerror(error), limit);
    return record(error == ENOMEM ? MST_ERR_MEMORY : MST_ERR_SYSTEM,
                  no_files ? "raise the limit of open files of that process (ulimit -n)" : NULL);
}

const mst_error_info *mst_last_error(void) {
    return &last.info;
}

/* "rank 2: mst_barrier #5 (train.c:41, step): what failed; do this" */
const char *mst_error(void) {
    const mst_error_info *e = &last.info;
    if (e->status == MST_OK) return "";
    char rank[32] = "", number[32] = "", where[256] = "";
    if (e->rank >= 0) snprintf(rank, sizeof rank, "rank %d: ", e->rank);
    if (e->sequence) snprintf(number, sizeof number, " #%llu", (unsigned long long)e->sequence);
    if (e->site.file) {
        const char *slash = strrchr(e->site.file, '/');
        snprintf(where, sizeof where, " (%s:%d, %s)", slash ? slash + 1 : e->site.file, e->site.line,
                 e->site.function ? e->site.function : "?");
    }
    snprintf(last.line, sizeof last.line, "%s%s%s%s%s%s%s%s", rank, e->operation, number, where,
             e->operation[0] ? ": " : "", e->message, e->remedy[0] ? "; " : "", e->remedy);
    return last.line;
}
