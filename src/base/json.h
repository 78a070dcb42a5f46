/*
 * json.h - JSON as RFC 8259 has it, and nothing else: a reader that is asked for what shall come next, and a
 * writer that appends to a buffer.
 *
 * The reader goes through bytes that somebody else owns, and neither copies nor allocates:
 *
 *     struct msi_json in = msi_json_of(text, n);
 *     struct msi_json_text key;
 *     if (msi_json_object(&in))
 *         while (msi_json_key(&in, &key))
 *             if (msi_json_is(key, "rank"))
 *                 msi_json_int(&in, &rank);
 *             else
 *                 msi_json_skip(&in);
 *     if (!msi_json_end(&in)) ... msi_json_explain(&in, why, sizeof why)
 *
 * The first fault stays: every call after it returns false and writes nothing, so it is asked for once, at the
 * end. Each key must be followed by the reading of its value, and each item of an array by its own. Keys that
 * occur twice are the caller's matter. It may be copied, to come back to a place.
 */
#ifndef MSI_BASE_JSON_H
#define MSI_BASE_JSON_H

#include "base/buf.h"

/* So many objects and arrays may lie within each other. */
enum { MSI_JSON_DEPTH_MOST = 128 };

enum msi_json_kind {
    MSI_JSON_NONE, /* the end, a fault, or what can be no value */
    MSI_JSON_OBJECT,
    MSI_JSON_ARRAY,
    MSI_JSON_STRING,
    MSI_JSON_NUMBER,
    MSI_JSON_BOOL,
    MSI_JSON_NULL
};

struct msi_json {
    const char *begin, *end;
    const char *at;       /* what is read next; after a fault, its place */
    const char *expected; /* at the fault; NULL: none */
    int depth;
    bool first; /* nothing was read of the innermost object or array */
};

/* A string between its quotes, found to be right. Where nothing in it is escaped, p and n are its value. */
struct msi_json_text {
    const char *p;
    size_t n;
    bool escaped;
};

/* A place in the text; line and column count from 1, columns in characters. */
struct msi_json_place {
    size_t offset, line, column;
};

static inline struct msi_json msi_json_of(const char *text, size_t n) {
    return (struct msi_json){.begin = text, .end = text + n, .at = text};
}

/* What comes next; in.at is then where it begins. */
enum msi_json_kind msi_json_peek(struct msi_json *in);

/* The beginning of an object or array. */
bool msi_json_object(struct msi_json *in);
bool msi_json_array(struct msi_json *in);
/* The next key of the object; false: it has ended, or a fault. */
bool msi_json_key(struct msi_json *in, struct msi_json_text *key);
/* Is there another item in the array? false: it has ended, or a fault. */
bool msi_json_item(struct msi_json *in);

bool msi_json_string(struct msi_json *in, struct msi_json_text *text);
/* A number rounded to the nearest double; one beyond the range of doubles is a fault. */
bool msi_json_double(struct msi_json *in, double *value);
/* A number without a fraction, however it is written, that fits; exact. */
bool msi_json_int(struct msi_json *in, int64_t *value);
bool msi_json_bool(struct msi_json *in, bool *value);
bool msi_json_null(struct msi_json *in);

/* Any value, checked as if it were read; raw becomes its text. */
bool msi_json_skip(struct msi_json *in);
bool msi_json_raw(struct msi_json *in, struct msi_str *raw);

/* Nothing may follow but blanks. True: all of the text was right. */
bool msi_json_end(struct msi_json *in);

/* A fault that the caller found, where the reader is; returns false. expected must outlive the reader. */
bool msi_json_fail(struct msi_json *in, const char *expected);
/* Is the text right as far as it goes, but cut off? */
static inline bool msi_json_cut(const struct msi_json *in) {
    return in->expected && in->at == in->end;
}

/* Where a byte of the text is: in->at, or the p of a string. Takes time in proportion. */
struct msi_json_place msi_json_place(const struct msi_json *in, const char *at);
/* The fault in words, without its place: "a string was expected, not 'nul'". */
void msi_json_explain(const struct msi_json *in, char *why, size_t size);

/* The value of a string, with a 0 behind it; cut, between characters, if need be. Returns its whole length. */
size_t msi_json_copy(struct msi_json_text text, char *to, size_t size);
void msi_json_add(struct msi_json_text text, struct msi_buf *to);
bool msi_json_is_escaped(struct msi_json_text text, const char *value, size_t n);
/* Does the string have this value? */
static inline bool msi_json_is(struct msi_json_text text, const char *value) {
    size_t n = strlen(value);
    if (text.escaped) return msi_json_is_escaped(text, value, n);
    return text.n == n && !memcmp(text.p, value, n);
}

/*
 * The writer sets the commas; the caller closes what it opens and gives each key its value. Memory that runs
 * out is noted in the buffer, as always.
 */
struct msi_json_out {
    struct msi_buf *to;
    bool comma; /* is due before the next item */
};

static inline struct msi_json_out msi_json_to(struct msi_buf *to) {
    return (struct msi_json_out){.to = to};
}

void msi_json_put_object(struct msi_json_out *out);
void msi_json_put_object_end(struct msi_json_out *out);
void msi_json_put_array(struct msi_json_out *out);
void msi_json_put_array_end(struct msi_json_out *out);
void msi_json_put_key(struct msi_json_out *out, const char *key);
/* Whatever is no UTF-8 in a string becomes U+FFFD. */
void msi_json_put_text(struct msi_json_out *out, struct msi_str text);
static inline void msi_json_put_string(struct msi_json_out *out, const char *text) {
    msi_json_put_text(out, msi_cstr(text));
}
void msi_json_put_int(struct msi_json_out *out, int64_t value);
void msi_json_put_uint(struct msi_json_out *out, uint64_t value);
/* With so many decimals, at most 15, whatever the locale; null where it is not finite. */
void msi_json_put_double(struct msi_json_out *out, double value, int decimals);
/* value / 10^decimals, at most 18, exactly: nanoseconds as microseconds with 3. */
void msi_json_put_scaled(struct msi_json_out *out, int64_t value, int decimals);
void msi_json_put_bool(struct msi_json_out *out, bool value);
void msi_json_put_null(struct msi_json_out *out);
/* Text that is a JSON value already. */
void msi_json_put_raw(struct msi_json_out *out, struct msi_str value);

/* Members of an object: a key and its value, or the beginning of one. */
static inline void msi_json_member_int(struct msi_json_out *out, const char *key, int64_t value) {
    msi_json_put_key(out, key);
    msi_json_put_int(out, value);
}
static inline void msi_json_member_uint(struct msi_json_out *out, const char *key, uint64_t value) {
    msi_json_put_key(out, key);
    msi_json_put_uint(out, value);
}
static inline void msi_json_member_double(struct msi_json_out *out, const char *key, double value,
                                          int decimals) {
    msi_json_put_key(out, key);
    msi_json_put_double(out, value, decimals);
}
static inline void msi_json_member_scaled(struct msi_json_out *out, const char *key, int64_t value,
                                          int decimals) {
    msi_json_put_key(out, key);
    msi_json_put_scaled(out, value, decimals);
}
static inline void msi_json_member_bool(struct msi_json_out *out, const char *key, bool value) {
    msi_json_put_key(out, key);
    msi_json_put_bool(out, value);
}
static inline void msi_json_member_string(struct msi_json_out *out, const char *key, const char *text) {
    msi_json_put_key(out, key);
    msi_json_put_string(out, text);
}
static inline void msi_json_member_array(struct msi_json_out *out, const char *key) {
    msi_json_put_key(out, key);
    msi_json_put_array(out);
}
static inline void msi_json_member_object(struct msi_json_out *out, const char *key) {
    msi_json_put_key(out, key);
    msi_json_put_object(out);
}

#endif
