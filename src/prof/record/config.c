/* config.c - reading DeepSpeed's configuration of the comms logger. See config.h. */
#include "prof/record/config.h"
#include "base/error.h"
#include "base/json.h"
#include "base/nearest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

const struct msi_prof_config msi_prof_config_default = {.prof_all = true};

static const char example[] =
    "write it as {\"comms_logger\": {\"enabled\": true, \"prof_all\": true, \"prof_ops\": []}}";

/* One pass through a text. */
struct pass {
    struct msi_json in;
    const char *from; /* where it is from */
    struct msi_prof_config config;
};

enum key { ENABLED, VERBOSE, PROF_ALL, DEBUG, PROF_OPS, N_KEYS };
static const char *const keys[] = {"enabled", "verbose", "prof_all", "debug", "prof_ops"};
static const char logger[] = "comms_logger";

/* What is wrong at a place of the text. */
static mst_status wrong(const struct pass *pass, const char *at, const char *remedy, const char *what) {
    struct msi_json_place place = msi_json_place(&pass->in, at);
    return msi_fail(MST_ERR_CONFIG, remedy, "%.300s:%zu:%zu: %s", pass->from, place.line, place.column, what);
}

/* The text is no JSON, where the reader stopped: in what, if that is known. */
static mst_status malformed_in(const struct pass *pass, const char *of) {
    char why[200], what[300];
    msi_json_explain(&pass->in, why, sizeof why);
    snprintf(what, sizeof what, "%s%s%s", of, *of ? ": " : "", why);
    return wrong(pass, pass->in.at, "correct it; it must be JSON", what);
}

static mst_status malformed(const struct pass *pass) {
    return malformed_in(pass, "");
}

/* How much of a value is shown; characters stay whole. */
static int shown(const char *p, size_t n) {
    enum { MOST = 60 };
    size_t kept = n < MOST ? n : MOST;
    while (kept < n && ((unsigned char)p[kept] & 0xc0) == 0x80) kept--;
    return (int)kept;
}

/* The value that comes next is another than what is expected of it. */
static mst_status misplaced(struct pass *pass, const char *of, const char *expected) {
    char what[300];
    enum msi_json_kind kind = msi_json_peek(&pass->in);
    const char *at = pass->in.at;
    struct msi_str raw;
    if (kind == MSI_JSON_NONE) msi_json_fail(&pass->in, expected);
    if (!msi_json_raw(&pass->in, &raw)) return malformed_in(pass, of);
    if (kind == MSI_JSON_OBJECT) raw = msi_cstr("an object");
    if (kind == MSI_JSON_ARRAY) raw = msi_cstr("an array");
    int n = shown(raw.p, raw.n);
    snprintf(what, sizeof what, "%s is %.*s%s, but %s is expected", of, n, raw.p,
             (size_t)n < raw.n ? "..." : "", expected);
    return wrong(pass, at, example, what);
}

static mst_status unknown_key(const struct pass *pass, struct msi_json_text key) {
    char what[200], remedy[100] = "correct or remove it";
    int best = 5;
    for (int i = 0; i < N_KEYS; i++) {
        int edits = msi_edits(msi_str(key.p, key.n), keys[i]);
        if (edits >= best) continue;
        best = edits;
        snprintf(remedy, sizeof remedy, "did you mean '%s'?", keys[i]);
    }
    snprintf(what, sizeof what, "%s has no key '%.*s', but enabled, verbose, prof_all, debug and prof_ops",
             logger, shown(key.p, key.n), key.p);
    return wrong(pass, key.p, remedy, what);
}

static mst_status said_twice(const struct pass *pass, struct msi_json_text key, const char *name) {
    char what[100];
    snprintf(what, sizeof what, "the key '%s' is there twice", name);
    return wrong(pass, key.p, "remove one of them", what);
}

static mst_status read_switch(struct pass *pass, enum key key) {
    struct msi_prof_config *config = &pass->config;
    bool *const switches[] = {&config->enabled, &config->verbose, &config->prof_all, &config->debug};
    char of[40];
    snprintf(of, sizeof of, "%s.%s", logger, keys[key]);
    if (msi_json_peek(&pass->in) != MSI_JSON_BOOL) return misplaced(pass, of, "true or false");
    return msi_json_bool(&pass->in, switches[key]) ? MST_OK : malformed_in(pass, of);
}

/* A name in prof_ops. */
static mst_status read_name(struct pass *pass) {
    struct msi_prof_config *config = &pass->config;
    struct msi_json before = pass->in;
    struct msi_json_text text;
    char *name = config->ops[config->n_ops];
    if (msi_json_peek(&pass->in) != MSI_JSON_STRING)
        return misplaced(pass, "an item of comms_logger.prof_ops", "a name in quotes");
    if (!msi_json_string(&pass->in, &text)) return malformed(pass);
    size_t n = msi_json_copy(text, name, MSI_PROF_NAME_MAX);
    if (n && n == strlen(name)) {
        config->n_ops++;
        return MST_OK;
    }
    pass->in = before;
    return misplaced(pass, "an item of comms_logger.prof_ops", "a name of 1 to 63 bytes");
}

static mst_status read_names(struct pass *pass) {
    if (msi_json_peek(&pass->in) != MSI_JSON_ARRAY)
        return misplaced(pass, "comms_logger.prof_ops", "a list of names such as [\"all_reduce\"]");
    msi_json_array(&pass->in);
    while (msi_json_item(&pass->in)) {
        if (pass->config.n_ops == MSI_PROF_OPS_MOST)
            return wrong(pass, pass->in.at, "shorten it, or set prof_all",
                         "comms_logger.prof_ops has more than 64 names");
        mst_status st = read_name(pass);
        if (st != MST_OK) return st;
    }
    return pass->in.expected ? malformed(pass) : MST_OK;
}

static mst_status read_logger(struct pass *pass) {
    struct msi_json_text found;
    bool seen[N_KEYS] = {false};
    if (msi_json_peek(&pass->in) != MSI_JSON_OBJECT) return misplaced(pass, logger, "an object");
    msi_json_object(&pass->in);
    while (msi_json_key(&pass->in, &found)) {
        int key = 0;
        while (key < N_KEYS && !msi_json_is(found, keys[key])) key++;
        if (key == N_KEYS) return unknown_key(pass, found);
        if (seen[key]) return said_twice(pass, found, keys[key]);
        seen[key] = true;
        mst_status st = key == PROF_OPS ? read_names(pass) : read_switch(pass, (enum key)key);
        if (st != MST_OK) return st;
    }
    if (!seen[PROF_ALL]) pass->config.prof_all = pass->config.n_ops == 0;
    return pass->in.expected ? malformed(pass) : MST_OK;
}

mst_status msi_prof_config_parse(const char *text, size_t n, const char *from,
                                 struct msi_prof_config *config) {
    struct pass pass = {.in = msi_json_of(text, n), .from = from, .config = msi_prof_config_default};
    struct msi_json_text key;
    bool seen = false;
    if (msi_json_peek(&pass.in) == MSI_JSON_NONE && pass.in.at == pass.in.end)
        return msi_fail(MST_ERR_CONFIG, example, "%.300s is empty", from);
    if (msi_json_peek(&pass.in) != MSI_JSON_OBJECT) return misplaced(&pass, "the configuration", "an object");
    msi_json_object(&pass.in);
    while (msi_json_key(&pass.in, &key)) {
        if (!msi_json_is(key, logger)) {
            msi_json_skip(&pass.in);
            continue;
        }
        if (seen) return said_twice(&pass, key, logger);
        seen = true;
        mst_status st = read_logger(&pass);
        if (st != MST_OK) return st;
    }
    if (!msi_json_end(&pass.in)) return malformed(&pass);
    *config = pass.config;
    return MST_OK;
}

static mst_status unreadable(const char *path, const char *why) {
    return msi_fail(MST_ERR_CONFIG, "give the path of a file that can be read, or JSON that begins with {",
                    "cannot read the configuration '%.300s': %s", path, why);
}

/* All of a plain file; nothing is waited for. */
static mst_status read_file(const char *path, struct msi_buf *text) {
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return unreadable(path, strerror(errno));
    ssize_t n = -1;
    const char *why = NULL;
    if (fstat(fd, &about) != 0)
        why = strerror(errno);
    else if (!S_ISREG(about.st_mode))
        why = S_ISDIR(about.st_mode) ? "it is a directory" : "it is no plain file";
    while (!why && n != 0 && text->len <= MSI_PROF_CONFIG_MOST && msi_buf_reserve(text, 65536)) {
        n = read(fd, text->data + text->len, 65536);
        if (n > 0) text->len += (size_t)n;
        if (n < 0 && errno != EINTR) why = strerror(errno);
    }
    close(fd);
    if (text->failed) return msi_fail_memory();
    if (text->len > MSI_PROF_CONFIG_MOST) why = "it is longer than 1 MiB";
    return why ? unreadable(path, why) : MST_OK;
}

mst_status msi_prof_config_read(const char *text_or_path, struct msi_prof_config *config) {
    if (!text_or_path || !*text_or_path)
        return msi_fail(MST_ERR_CONFIG, "give the path of a file, or JSON that begins with {",
                        "there is neither a path nor a text of a configuration");
    if (text_or_path[strspn(text_or_path, " \t\r\n")] == '{')
        return msi_prof_config_parse(text_or_path, strlen(text_or_path), "configuration", config);
    struct msi_buf text = {0};
    mst_status st = read_file(text_or_path, &text);
    if (st == MST_OK) st = msi_prof_config_parse((const char *)text.data, text.len, text_or_path, config);
    msi_buf_free(&text);
    return st;
}
