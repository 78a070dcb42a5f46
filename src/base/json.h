/*
 * json.h - JSON as in RFC 8259: a pull reader, and a writer that appends to a buffer.
 *
 * The reader works on bytes that another owner keeps, and neither copies nor allocates:
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
 * The first error stays: every later call returns false and writes nothing, so the caller checks once at the
 * end. The caller reads the value of each key, and each item of an array. It handles keys that occur twice. A
 * reader may be copied to return to a position.
 */
#ifndef MSI_BASE_JSON_H
#define MSI_BASE_JSON_H

#include "base/buf.h"

enum { MSI_JSON_DEPTH_MOST = 128 }; /* levels of objects and arrays */

enum msi_json_kind {
    MSI_JSON_NONE, /* the end, an error, or not a value */
    MSI_JSON_OBJECT,
    MSI_JSON_ARRAY,
    MSI_JSON_STRING,
    MSI_JSON_NUMBER,
    MSI_JSON_BOOL,
    MSI_JSON_NULL
};

struct msi_json {
    const char *begin, *end;
    const char *at;       /* what is read next; after an error, its place */
    const char *expected; /* at the error; NULL: no error */
    int depth;
    bool first; /* at the beginning of the innermost object or array */
};

/* A valid string between its quotes. If nothing in it is escaped, p and n are its value. */
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
    return (struct msi_json){.begin = text, .end = n ? text + n : text, .at = text}; /* text may be NULL */
}

/* The kind of the next value; in->at is then its beginning. */
enum msi_json_kind msi_json_peek(struct msi_json *in);

/* Enter an object or array. */
bool msi_json_object(struct msi_json *in);
bool msi_json_array(struct msi_json *in);
/* The next key of the object; false: its end, or an error. */
bool msi_json_key(struct msi_json *in, struct msi_json_text *key);
/* Is there another item in the array? false: its end, or an error. */
bool msi_json_item(struct msi_json *in);

bool msi_json_string(struct msi_json *in, struct msi_json_text *text);
/* Rounds to the nearest double; a number beyond the range of doubles is an error. */
bool msi_json_double(struct msi_json *in, double *value);
/* An integer in any notation that fits; exact. */
bool msi_json_int(struct msi_json *in, int64_t *value);
bool msi_json_bool(struct msi_json *in, bool *value);
bool msi_json_null(struct msi_json *in);

/* Checks and skips any value; raw becomes its text. */
bool msi_json_skip(struct msi_json *in);
bool msi_json_raw(struct msi_json *in, struct msi_str *raw);

/* Only blanks may follow. True: the whole text was valid. */
bool msi_json_end(struct msi_json *in);

/* Sets an error at the current position; returns false. expected must outlive the reader. */
bool msi_json_fail(struct msi_json *in, const char *expected);

/* The place of a byte of the text: in->at, or p of a string. Takes linear time. */
struct msi_json_place msi_json_place(const struct msi_json *in, const char *at);
/* The error as text, without its place: "expected a string, not 'nul'". */
void msi_json_explain(const struct msi_json *in, char *why, size_t size);

/*
 * Copies the value of a string with a NUL; cuts it between characters if necessary. Returns its full length.
 */
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
 * The writer adds the commas. The caller closes what it opens, and writes a value after each key. The buffer
 * notes a lack of memory.
 */
struct msi_json_out {
    struct msi_buf *to;
    bool comma; /* the next item needs one before it */
};

static inline struct msi_json_out msi_json_to(struct msi_buf *to) {
    return (struct msi_json_out){.to = to};
}

void msi_json_put_object(struct msi_json_out *out);
void msi_json_put_object_end(struct msi_json_out *out);
void msi_json_put_array(struct msi_json_out *out);
void msi_json_put_array_end(struct msi_json_out *out);
void msi_json_put_key(struct msi_json_out *out, const char *key);
/* Bytes that are not UTF-8 become U+FFFD. */
void msi_json_put_text(struct msi_json_out *out, struct msi_str text);
static inline void msi_json_put_string(struct msi_json_out *out, const char *text) {
    msi_json_put_text(out, msi_cstr(text));
}
void msi_json_put_int(struct msi_json_out *out, int64_t value);
void msi_json_put_uint(struct msi_json_out *out, uint64_t value);
/* With up to 15 decimals, in any locale; null if it is not finite. */
void msi_json_put_double(struct msi_json_out *out, double value, int decimals);
/* value / 10^decimals, exactly; up to 18 decimals. 3 prints nanoseconds as microseconds. */
void msi_json_put_scaled(struct msi_json_out *out, int64_t value, int decimals);
void msi_json_put_bool(struct msi_json_out *out, bool value);
void msi_json_put_null(struct msi_json_out *out);
/* value is a JSON text. */
void msi_json_put_raw(struct msi_json_out *out, struct msi_str value);

/* A member of an object: a key and its value, or the beginning of an array or object. */
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
