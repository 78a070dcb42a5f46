/* prof.c - the public calls for profiles: configuration, summaries, the flight recorder. */
#include "api/api.h"
#include "base/error.h"
#include "base/options.h"
#include "prof/flight/dump.h"
#include "prof/summary/summary.h"

#include <muster/prof.h>
#include <stdlib.h>
#include <string.h>

static int find_op(const struct msi_prof_config *config, const char *name) {
    int at = 0;
    while (at < config->n_ops && strcmp(config->ops[at], name) != 0) at++;
    return at;
}

static mst_status add_op(struct msi_prof_config *config, const char *name) {
    int at = find_op(config, name);
    if (at < config->n_ops) return MST_OK;
    if (strlen(name) >= MSI_PROF_NAME_MAX)
        return msi_fail(MST_ERR_INVALID, NULL, "the name '%.40s…' is longer than %d characters", name,
                        MSI_PROF_NAME_MAX - 1);
    if (at == MSI_PROF_OPS_MOST)
        return msi_fail(MST_ERR_LIMIT, "record everything, or call with .prof",
                        "there are already %d names of operations", MSI_PROF_OPS_MOST);
    strcpy(config->ops[config->n_ops++], name);
    return MST_OK;
}

static void remove_op(struct msi_prof_config *config, const char *name) {
    int at = find_op(config, name);
    if (at < config->n_ops) memmove(config->ops[at], config->ops[--config->n_ops], MSI_PROF_NAME_MAX);
}

/* Adds names of operations, or removes them. */
static mst_status name_ops(struct msi_prof_config *config, const char *const *names, size_t n, bool on) {
    mst_status st = MST_OK;
    if (!names && n) return msi_fail(MST_ERR_INVALID, NULL, "names is NULL");
    for (size_t i = 0; i < n && st == MST_OK; i++) {
        if (!names[i]) return msi_fail(MST_ERR_INVALID, NULL, "name %zu is NULL", i);
        if (on && !*names[i]) return msi_fail(MST_ERR_INVALID, "name an operation", "name %zu is empty", i);
        if (on)
            st = add_op(config, names[i]);
        else
            remove_op(config, names[i]);
    }
    return st;
}

static mst_status check_ops(const mst_prof_options *o) {
    if (!o->prof_ops && o->n_ops)
        return msi_fail(MST_ERR_INVALID, NULL, ".prof_ops is NULL, but .n_ops is %zu", o->n_ops);
    if (o->prof_ops && !o->n_ops)
        return msi_fail(MST_ERR_INVALID, "set .n_ops, or leave .prof_ops out",
                        ".prof_ops is given, but .n_ops is 0");
    return MST_OK;
}

mst_status mst_configure_with(const mst_prof_options *given) {
    mst_prof_options o;
    struct msi_prof_config config = {0};
    mst_status st = msi_options_begin("mst_configure", &o, sizeof o, given);
    if (st == MST_OK) st = check_ops(&o);
    if (st == MST_OK && o.config) st = msi_prof_config_read(o.config, &config);
    if (st == MST_OK) st = name_ops(&config, o.prof_ops, o.n_ops, true);
    if (st != MST_OK) return st;
    config.enabled |= o.enabled;
    config.prof_all |= o.prof_all || (o.enabled && !o.config && o.n_ops == 0);
    config.verbose |= o.verbose;
    config.debug |= o.debug;
    msi_recorder_set(&config, true);
    return MST_OK;
}

static mst_status start_all(struct msi_prof_config *config, const void *unused) {
    (void)unused;
    config->enabled = config->prof_all = true;
    return MST_OK;
}

static mst_status stop_all(struct msi_prof_config *config, const void *unused) {
    (void)unused;
    config->prof_all = false;
    return MST_OK;
}

mst_status mst_start_profiling_comms(void) {
    msi_call_begin("mst_start_profiling_comms", NULL, msi_call_get_rank());
    return msi_recorder_change(start_all, NULL);
}

mst_status mst_stop_profiling_comms(void) {
    msi_call_begin("mst_stop_profiling_comms", NULL, msi_call_get_rank());
    return msi_recorder_change(stop_all, NULL);
}

struct named {
    const char *const *names;
    size_t n;
};

/* If recording was off, only these names are recorded. */
static mst_status start_ops(struct msi_prof_config *config, const void *arg) {
    const struct named *named = arg;
    if (!config->enabled) config->prof_all = false;
    config->enabled = true;
    return name_ops(config, named->names, named->n, true);
}

static mst_status stop_ops(struct msi_prof_config *config, const void *arg) {
    const struct named *named = arg;
    return name_ops(config, named->names, named->n, false);
}

mst_status mst_start_profiling_op(const char *const *names, size_t n) {
    msi_call_begin("mst_start_profiling_op", NULL, msi_call_get_rank());
    return msi_recorder_change(start_ops, &(struct named){names, n});
}

mst_status mst_stop_profiling_op(const char *const *names, size_t n) {
    msi_call_begin("mst_stop_profiling_op", NULL, msi_call_get_rank());
    return msi_recorder_change(stop_ops, &(struct named){names, n});
}

/* Writes to out on rank 0. */
static mst_status summarize(const char *name, const mst_summary_options *given, bool json,
                            struct msi_buf *out) {
    mst_summary_options o;
    mst_status st = msi_options_begin(name, &o, sizeof o, given);
    if (st == MST_OK) st = msi_check_timeout(o.timeout_ms);
    if (st != MST_OK) return st;
    mst_group *group = msi_call_group(name, &o.site, o.world);
    if (!group) return MST_ERR_STATE;
    if (msi_comm_in_callback())
        return msi_fail(MST_ERR_STATE, "call it after the callback has returned",
                        "a callback of a work cannot wait for other ranks");
    if (group->ranks)
        return msi_fail(MST_ERR_INVALID, "leave it out, or give a world", ".world is a group of some ranks");
    struct msi_wait wait = {msi_deadline(o.timeout_ms ? o.timeout_ms : msi_group_timeout(group)), o.cancel};
    uint64_t entered = msi_call_enter(group->size, 0, 0);
    return msi_call_leave(entered, msi_world_summarize(group->world, &wait, o.show_straggler, json, out));
}

mst_status mst_log_summary_with(const mst_summary_options *options) {
    struct msi_buf text = {0};
    mst_status st = summarize("mst_log_summary", options, false, &text);
    if (st == MST_OK && text.len) msi_print(text.data, text.len);
    msi_buf_free(&text);
    return st;
}

mst_status mst_log_summary_json_with(mst_bytes *out, const mst_summary_options *options) {
    struct msi_buf text = {0};
    mst_status st = summarize("mst_log_summary_json", options, true, &text);
    if (st == MST_OK && !out) st = msi_fail(MST_ERR_INVALID, NULL, "out is NULL");
    if (st != MST_OK) {
        msi_buf_free(&text);
        return st;
    }
    *out = (mst_bytes){NULL, 0};
    if (!text.len) return MST_OK;
    size_t len = text.len;
    msi_buf_add_u8(&text, 0);
    if (text.failed) {
        msi_buf_free(&text);
        return msi_fail_memory();
    }
    *out = (mst_bytes){(char *)text.data, len};
    return MST_OK;
}

mst_status mst_reset_log(void) {
    msi_call_begin("mst_reset_log", NULL, msi_call_get_rank());
    return msi_recorder_reset();
}

bool mst_has_comm_data(void) {
    return msi_recorder_count(NULL) > 0;
}

int64_t mst_get_comm_operation_count(const char *name) {
    return (int64_t)msi_recorder_count(name);
}

mst_status mst_flight_dump(const char *path) {
    msi_call_begin("mst_flight_dump", NULL, msi_call_get_rank());
    if (!path || !*path)
        return msi_fail(MST_ERR_INVALID, "name a file", "path is %s", path ? "empty" : "NULL");
    return msi_flight_dump(path);
}
