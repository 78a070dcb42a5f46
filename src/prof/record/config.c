/* config.c - see config.h. */
#include "prof/record/config.h"
#include "base/error.h"
#include "base/json.h"
#include "base/nearest.h"
#include "os/file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

const struct msi_prof_config msi_prof_config_default = {.prof_all = true};

static const char example[] =
    "write it as {\"comms_logger\": {\"enabled\": true, \"prof_all\": true, \"prof_ops\": []}}";

struct reader {
    struct msi_json in;
    const char *from; /* origin of the text, for messages */
    struct msi_prof_config config;
};

enum key { ENABLED, VERBOSE, PROF_ALL, DEBUG, PROF_OPS, N_KEYS };
static const char *const keys[] = {"enabled", "verbose", "prof_all", "debug", "prof_ops"};
static const char logger[] = "comms_logger";

__attribute__((format(printf, 4, 5))) static mst_status fail_at(const struct reader *r, const char *at,
                                                                const char *remedy, const char *format, ...) {
    char what[300];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    struct msi_json_place place = msi_json_place(&r->in, at);
    return msi_fail(MST_ERR_CONFIG, remedy, "%.300s:%zu:%zu: %s", r->from, place.line, place.column, what);
}

/* The text is not JSON; of: the value that was read, or "". */
static mst_status malformed(const struct reader *r, const char *of) {
    char why[200];
    msi_json_explain(&r->in, why, sizeof why);
    return fail_at(r, r->in.at, "correct it; it must be JSON", "%s%s%s", of, *of ? ": " : "", why);
}

/* How many bytes of a value are shown, without cutting a character. */
static int shown(const char *p, size_t n) {
    enum { MOST = 60 };
    size_t kept = n < MOST ? n : MOST;
    while (kept < n && ((unsigned char)p[kept] & 0xc0) == 0x80) kept--;
    return (int)kept;
}

/* The next value is not what is expected. */
static mst_status unexpected(struct reader *r, const char *of, const char *expected) {
    enum msi_json_kind kind = msi_json_peek(&r->in);
    const char *at = r->in.at;
    struct msi_str raw;
    if (kind == MSI_JSON_NONE) msi_json_fail(&r->in, expected);
    if (!msi_json_raw(&r->in, &raw)) return malformed(r, of);
    if (kind == MSI_JSON_OBJECT) raw = msi_cstr("an object");
    if (kind == MSI_JSON_ARRAY) raw = msi_cstr("an array");
    int n = shown(raw.p, raw.n);
    return fail_at(r, at, example, "%s is %.*s%s, but %s is expected", of, n, raw.p,
                   (size_t)n < raw.n ? "..." : "", expected);
}

static mst_status unknown_key(const struct reader *r, struct msi_json_text key) {
    char typed[100], remedy[100] = "correct or remove it";
    msi_json_copy(key, typed, sizeof typed);
    const char *meant = msi_nearest(typed, keys, N_KEYS, sizeof *keys);
    if (meant) snprintf(remedy, sizeof remedy, "did you mean '%s'?", meant);
    return fail_at(r, key.p, remedy,
                   "%s has no key '%.*s'; its keys are enabled, verbose, prof_all, debug and prof_ops",
                   logger, shown(key.p, key.n), key.p);
}

static mst_status duplicate_key(const struct reader *r, struct msi_json_text key, const char *name) {
    return fail_at(r, key.p, "remove one of them", "the key '%s' occurs twice", name);
}

static mst_status read_switch(struct reader *r, enum key key) {
    struct msi_prof_config *config = &r->config;
    bool *const switches[] = {&config->enabled, &config->verbose, &config->prof_all, &config->debug};
    char of[40];
    snprintf(of, sizeof of, "%s.%s", logger, keys[key]);
    if (msi_json_peek(&r->in) != MSI_JSON_BOOL) return unexpected(r, of, "true or false");
    return msi_json_bool(&r->in, switches[key]) ? MST_OK : malformed(r, of);
}

static mst_status read_name(struct reader *r) {
    struct msi_prof_config *config = &r->config;
    struct msi_json before = r->in;
    struct msi_json_text text;
    char *name = config->ops[config->n_ops];
    if (msi_json_peek(&r->in) != MSI_JSON_STRING)
        return unexpected(r, "an item of comms_logger.prof_ops", "a name in quotes");
    if (!msi_json_string(&r->in, &text)) return malformed(r, "");
    size_t n = msi_json_copy(text, name, MSI_PROF_NAME_MAX);
    if (n && n == strlen(name)) {
        config->n_ops++;
        return MST_OK;
    }
    r->in = before;
    return unexpected(r, "an item of comms_logger.prof_ops", "a name of 1 to 63 bytes");
}

static mst_status read_names(struct reader *r) {
    if (msi_json_peek(&r->in) != MSI_JSON_ARRAY)
        return unexpected(r, "comms_logger.prof_ops", "a list of names such as [\"all_reduce\"]");
    msi_json_array(&r->in);
    while (msi_json_item(&r->in)) {
        if (r->config.n_ops == MSI_PROF_OPS_MOST)
            return fail_at(r, r->in.at, "shorten it, or set prof_all",
                           "comms_logger.prof_ops has more than 64 names");
        mst_status st = read_name(r);
        if (st != MST_OK) return st;
    }
    return r->in.expected ? malformed(r, "") : MST_OK;
}

static mst_status read_logger(struct reader *r) {
    struct msi_json_text found;
    bool seen[N_KEYS] = {false};
    if (msi_json_peek(&r->in) != MSI_JSON_OBJECT) return unexpected(r, logger, "an object");
    msi_json_object(&r->in);
    while (msi_json_key(&r->in, &found)) {
        int key = 0;
        while (key < N_KEYS && !msi_json_is(found, keys[key])) key++;
        if (key == N_KEYS) return unknown_key(r, found);
        if (seen[key]) return duplicate_key(r, found, keys[key]);
        seen[key] = true;
        mst_status st = key == PROF_OPS ? read_names(r) : read_switch(r, (enum key)key);
        if (st != MST_OK) return st;
    }
    if (!seen[PROF_ALL]) r->config.prof_all = r->config.n_ops == 0;
    return r->in.expected ? malformed(r, "") : MST_OK;
}

mst_status msi_prof_config_parse(const char *text, size_t n, const char *from,
                                 struct msi_prof_config *config) {
    struct reader r = {.in = msi_json_of(text, n), .from = from, .config = msi_prof_config_default};
    struct msi_json_text key;
    bool seen = false;
    if (msi_json_peek(&r.in) == MSI_JSON_NONE && r.in.at == r.in.end)
        return msi_fail(MST_ERR_CONFIG, example, "%.300s is empty", from);
    if (msi_json_peek(&r.in) != MSI_JSON_OBJECT) return unexpected(&r, "the configuration", "an object");
    msi_json_object(&r.in);
    while (msi_json_key(&r.in, &key)) {
        if (!msi_json_is(key, logger)) {
            msi_json_skip(&r.in);
            continue;
        }
        if (seen) return duplicate_key(&r, key, logger);
        seen = true;
        mst_status st = read_logger(&r);
        if (st != MST_OK) return st;
    }
    if (!msi_json_end(&r.in)) return malformed(&r, "");
    *config = r.config;
    return MST_OK;
}

static mst_status unreadable(const char *path, int error) {
    if (error == ENOMEM) return msi_fail_memory();
    const char *why = error == EISDIR   ? "it is a directory"
                      : error == EINVAL ? "it is not a regular file"
                      : error == EFBIG  ? "it is longer than 1 MiB"
                                        : strerror(error);
    return msi_fail(MST_ERR_CONFIG, "give the path of a file that can be read, or JSON that begins with {",
                    "cannot read the configuration '%.300s': %s", path, why);
}

mst_status msi_prof_config_read(const char *text_or_path, struct msi_prof_config *config) {
    if (!text_or_path || !*text_or_path)
        return msi_fail(MST_ERR_CONFIG, "give the path of a file, or JSON that begins with {",
                        "the configuration is empty");
    if (text_or_path[strspn(text_or_path, " \t\r\n")] == '{')
        return msi_prof_config_parse(text_or_path, strlen(text_or_path), "configuration", config);
    struct msi_buf text = {0};
    int error = msi_file_read(text_or_path, MSI_PROF_CONFIG_MOST, &text);
    mst_status st = error ? unreadable(text_or_path, error)
                          : msi_prof_config_parse((const char *)text.data, text.len, text_or_path, config);
    msi_buf_free(&text);
    return st;
}
