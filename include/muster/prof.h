/*
 * prof.h - the communication profiler, with the interface of DeepSpeed's comms logger.
 *
 *  1. While profiling is enabled, it records the selected calls of comm.h: all calls, those in a list of
 *     names, or those with .prof. Recording adds no synchronization and no allocation to a call.
 *  2. The name of a call in the profile is its .log_name, or its own name without mst_: "all_reduce".
 *  3. The settings apply to the process. The environment (MUSTER_PROF, MUSTER_CONFIG, MUSTER_TRACE) applies
 *     until the program calls one of these functions.
 */
#ifndef MUSTER_PROF_H
#define MUSTER_PROF_H

#include <muster/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Options that are not set are off. */
#define mst_prof_options_fields                                                                              \
    MST_OPTIONS_HEAD                                                                                         \
    MST_OPTION(bool enabled);                                                                                \
    MST_OPTION(bool prof_all);               /* record every call; the default without prof_ops */           \
    MST_OPTION(const char *const *prof_ops); /* record calls with these names, and those with .prof */       \
    MST_OPTION(size_t n_ops);                /* number of prof_ops */                                        \
    MST_OPTION(bool verbose);                /* rank 0 prints a line for each recorded call */               \
    MST_OPTION(bool debug);                  /* distinguish calls from different functions */                \
    /* DeepSpeed's JSON, or the path of a file with it: {"comms_logger": {"enabled": true, …}}. */         \
    /* The options above are added to it. prof_ops without prof_all in it select only these calls. */        \
    MST_OPTION(const char *config);
typedef struct mst_prof_options {
    mst_prof_options_fields
} mst_prof_options;
mst_status mst_configure_with(const mst_prof_options *options);

/* Start and stop recording all calls. After the stop, only calls of mst_start_profiling_op are recorded. */
mst_status mst_start_profiling_comms(void);
mst_status mst_stop_profiling_comms(void);
/* Add or remove names of recorded calls. They apply while not all calls are recorded. */
mst_status mst_start_profiling_op(const char *const *names, size_t n);
mst_status mst_stop_profiling_op(const char *const *names, size_t n);

#define mst_summary_options_fields                                                                           \
    MST_OPTIONS_HEAD                                                                                         \
    MST_OPTION(mst_group *world);    /* NULL: the default world */                                           \
    MST_OPTION(bool show_straggler); /* show waiting for other ranks and transfer */                         \
    MST_OPTION(int timeout_ms); /* 0: the world's; ranks that do not call in time are listed as missing */   \
    MST_OPTION(mst_cancel *cancel);
typedef struct mst_summary_options {
    mst_summary_options_fields
} mst_summary_options;
/*
 * Prints the profile so far on rank 0 as tables (docs/profiling.md). All ranks call it; only rank 0 waits for
 * the others. Recording continues. The table does not contain this call or its messages. Calls are matched by
 * the number of collectives of the world before them, so a rank that has called more or less often matches
 * again after the next collective. Returns MST_ERR_STATE in a callback of a work.
 */
mst_status mst_log_summary_with(const mst_summary_options *options);
/* Returns the profile as JSON on rank 0; *out is empty on other ranks. Free it with mst_bytes_free. */
mst_status mst_log_summary_json_with(mst_bytes *out, const mst_summary_options *options);

/*
 * Discards the profile so far of all worlds of this process. Recording and traces continue. Call it on all
 * ranks between the same collectives, for example at the start of an epoch: .show_straggler compares only
 * calls that all ranks have in their profile.
 */
mst_status mst_reset_log(void);
/* Is any call in the profile of this process? */
bool mst_has_comm_data(void);
/* Returns the number of calls of that name in the profile of this process, without those that failed. NULL:
 * of all names. */
int64_t mst_get_comm_operation_count(const char *name);

/*
 * Writes the flight record, the last operations of this process (up to 256), to a file as JSON: group,
 * number, size, call site and state (queued, started or done). It is recorded also without profiling. With
 * MUSTER_TRACE=DIR the library writes DIR/rank-R.flight.json when an operation fails and its group with it.
 * `muster report DIR` reads these files. A process with several worlds uses its rank in the one that it
 * opened first of those still open.
 */
mst_status mst_flight_dump(const char *path);

#ifdef __cplusplus
}
#endif

MST_WRAP_0(mst_configure, mst_prof_options)
MST_WRAP_0(mst_log_summary, mst_summary_options)
MST_WRAP_1(mst_log_summary_json, mst_summary_options, mst_bytes *)

#define mst_configure(...)        MST_CALL_0(mst_configure, mst_prof_options, __VA_ARGS__)
#define mst_log_summary(...)      MST_CALL_0(mst_log_summary, mst_summary_options, __VA_ARGS__)
#define mst_log_summary_json(...) MST_CALL_1(mst_log_summary_json, mst_summary_options, __VA_ARGS__)
#endif
