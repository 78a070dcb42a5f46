/*
 * prof.h - what communication costs: DeepSpeed's comms logger for C, without its faults.
 *
 *  1. While profiling is enabled each call of comm.h that is wanted is recorded: all of them, those whose name is in a list, or
 *     those that ask for it with .prof. Recording adds no synchronisation and no allocation to a call.
 *  2. A call is recorded under its .log_name, or its own name without mst_: "all_reduce".
 *  3. What is set here is for the process. The environment (MUSTER_PROF, MUSTER_CONFIG, MUSTER_TRACE) counts until the program
 *     calls one of these.
 */
#ifndef MUSTER_PROF_H
#define MUSTER_PROF_H

#include <muster/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is not named here is off. */
typedef struct mst_prof_options {
    MST_OPTION(size_t size);
    MST_OPTION(mst_site site);
    MST_OPTION(bool enabled);
    MST_OPTION(bool prof_all);               /* every call; so it is, too, where there are no prof_ops */
    MST_OPTION(const char *const *prof_ops); /* only calls with these names, and those with .prof, … */
    MST_OPTION(size_t n_ops);                /* … so many */
    MST_OPTION(bool verbose);                /* rank 0 prints a line for each recorded call */
    MST_OPTION(bool debug);                  /* calls of different functions are told apart */
    /*
     * DeepSpeed's JSON, or the path of a file with it: {"comms_logger": {"enabled": true, …}}; the above is added to it. prof_ops
     * there without prof_all are these alone.
     */
    MST_OPTION(const char *config);
} mst_prof_options;
mst_status mst_configure_with(const mst_prof_options *options);

/* From here on everything is recorded, or nothing but what is named by mst_start_profiling_op. */
mst_status mst_start_profiling_comms(void);
mst_status mst_stop_profiling_comms(void);
/* Adds names to those that are recorded, or takes them off. They count where not everything is recorded. */
mst_status mst_start_profiling_op(const char *const *names, size_t n);
mst_status mst_stop_profiling_op(const char *const *names, size_t n);

typedef struct mst_summary_options {
    MST_OPTION(size_t size);
    MST_OPTION(mst_site site);
    MST_OPTION(mst_group *world);    /* NULL: the default world */
    MST_OPTION(bool show_straggler); /* compares each call with the same one of the other ranks */
    MST_OPTION(int timeout_ms); /* 0: the world's; ranks that have not come by then are missing, and named */
    MST_OPTION(mst_cancel *cancel);
} mst_summary_options;
/*
 * Rank 0 of the world prints what was recorded so far, as DeepSpeed does; all ranks call it, and only rank 0 waits for the others. What
 * is recorded goes on. The call itself, and what it sends around, is not in the table. Ranks meet by how many collectives of the world
 * they have begun: one that has called more or less often than the others is with them again after the next. In a callback of a work it
 * is refused (MST_ERR_STATE).
 */
mst_status mst_log_summary_with(const mst_summary_options *options);
/* The same as JSON, for all ranks: on rank 0 in *out, which is freed with mst_bytes_free; elsewhere that is empty. */
mst_status mst_log_summary_json_with(mst_bytes *out, const mst_summary_options *options);

/*
 * Writes the last operations of this process, up to 256, into a file as JSON: each with its group, number, size, call site, and whether it
 * was queued, started or done. They are kept whether or not anything is profiled. With MUSTER_TRACE=DIR the library does so by itself,
 * in DIR/rank-R.flight.json, when an operation fails in a way that ends its group. `muster report DIR` reads these files. A process with
 * several worlds goes by its rank in the one that it opened first of those that are there.
 */
mst_status mst_flight_dump(const char *path);

#ifdef __cplusplus
}
inline mst_status mst_configure(mst_prof_options options = {}, MST_SITE_PARAMETERS) {
    return mst_configure_with(MST_FILL_OPTIONS(options));
}
inline mst_status mst_log_summary(mst_summary_options options = {}, MST_SITE_PARAMETERS) {
    return mst_log_summary_with(MST_FILL_OPTIONS(options));
}
inline mst_status mst_log_summary_json(mst_bytes *out, mst_summary_options options = {},
                                       MST_SITE_PARAMETERS) {
    return mst_log_summary_json_with(out, MST_FILL_OPTIONS(options));
}
#else
#define mst_configure(...)   mst_configure_with(MST_OPTIONS(mst_prof_options, __VA_ARGS__))
#define mst_log_summary(...) mst_log_summary_with(MST_OPTIONS(mst_summary_options, __VA_ARGS__))
#define mst_log_summary_json(...)                                                                            \
    mst_log_summary_json_with(MST_LAST_POSITIONAL(__VA_ARGS__),                                              \
                              MST_OPTIONS_AFTER(mst_summary_options, __VA_ARGS__))
#endif
#endif
