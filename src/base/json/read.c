/* read.c - the JSON reader. See json.h. */
#include "base/json.h"
#include "base/json/parts.h"

#include <ctype.h>
#include <stdio.h>

bool msi_json_fail(struct msi_json *in, const char *expected) {
    if (!in->expected) in->expected = expected;
    return false;
}

static bool fail_at(struct msi_json *in, const char *at, const char *expected) {
    in->at = at;
    return msi_json_fail(in, expected);
}

/* The same for functions that return a pointer. */
static const char *bad_at(struct msi_json *in, const char *at, const char *expected) {
    fail_at(in, at, expected);
    return NULL;
}

/* Skips blanks; true if the next byte is c. */
static inline bool next_is(struct msi_json *in, char c) {
    const char *at = in->at;
    while (at < in->end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) at++;
    in->at = at;
    return at < in->end && *at == c;
}

enum msi_json_kind msi_json_peek(struct msi_json *in) {
    if (in->expected) return MSI_JSON_NONE;
    next_is(in, 0);
    if (in->at == in->end) return MSI_JSON_NONE;
    switch (*in->at) {
    case '{':
        return MSI_JSON_OBJECT;
    case '[':
        return MSI_JSON_ARRAY;
    case '"':
        return MSI_JSON_STRING;
    case 't':
    case 'f':
        return MSI_JSON_BOOL;
    case 'n':
        return MSI_JSON_NULL;
    default:
        return *in->at == '-' || msi_is_digit(*in->at) ? MSI_JSON_NUMBER : MSI_JSON_NONE;
    }
}

static bool enter(struct msi_json *in, char c, const char *expected) {
    if (in->expected) return false;
    if (!next_is(in, c)) return msi_json_fail(in, expected);
    if (in->depth == MSI_JSON_DEPTH_MOST) return msi_json_fail(in, "less nesting");
    in->depth++;
    in->first = true;
    in->at++;
    return true;
}

bool msi_json_object(struct msi_json *in) {
    return enter(in, '{', "an object");
}

bool msi_json_array(struct msi_json *in) {
    return enter(in, '[', "an array");
}

/* Moves to the next item of an object or array; false: its end, or an error. */
static inline bool next(struct msi_json *in, char closing, const char *expected) {
    if (in->expected) return false;
    if (next_is(in, closing)) {
        in->at++;
        in->depth--;
        in->first = false;
        return false;
    }
    if (!in->first) {
        if (in->at == in->end || *in->at != ',') return msi_json_fail(in, expected);
        in->at++;
        next_is(in, 0);
    }
    return true;
}

bool msi_json_item(struct msi_json *in) {
    if (!next(in, ']', "',' or ']'")) return false;
    in->first = false;
    return true;
}

static int hex_digit(char c) {
    char letter = (char)(c | 0x20);
    if (msi_is_digit(c)) return c - '0';
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

static int hex(const char *at) {
    int value = 0;
    for (int i = 0; i < 4; i++) value = value * 16 + hex_digit(at[i]);
    return value;
}

static bool is_surrogate(int unit, int base) {
    return unit >= base && unit < base + 0x400;
}

/* The four hexadecimal digits at at; -1 on an error. */
static int take_unit(struct msi_json *in, const char *at) {
    for (int i = 0; i < 4; i++)
        if (at + i == in->end || hex_digit(at[i]) < 0) {
            fail_at(in, at + i, "a hexadecimal digit");
            return -1;
        }
    return hex(at);
}

/* Checks the escape whose backslash is at at; returns its end, or NULL on an error. */
static const char *check_escape(struct msi_json *in, const char *at) {
    static const char pair[] = "the second half of a surrogate pair";
    at++;
    if (at < in->end && *at && strchr("\"\\/bfnrt", *at)) return at + 1;
    if (at == in->end || *at != 'u') return bad_at(in, at, "one of \"\\/bfnrtu after the backslash");
    int unit = take_unit(in, at + 1);
    if (unit < 0) return NULL;
    if (is_surrogate(unit, 0xdc00)) return bad_at(in, at - 1, "the first half of a surrogate pair");
    at += 5;
    if (!is_surrogate(unit, 0xd800)) return at;
    for (int i = 0; i < 2; i++, at++)
        if (at == in->end || *at != "\\u"[i]) return bad_at(in, at, pair);
    unit = take_unit(in, at);
    if (unit < 0) return NULL;
    return is_surrogate(unit, 0xdc00) ? at + 4 : bad_at(in, at - 2, pair);
}

/* Reads the rest of a string with characters that are not plain. */
static bool string_rest(struct msi_json *in, const char *at, struct msi_json_text *text) {
    const char *begin = in->at + 1;
    bool escaped = false;
    for (;;) {
        at = msi_json_plain_end(at, in->end);
        if (at == in->end) return fail_at(in, at, "the '\"' that ends the string");
        if (*at == '"') break;
        if (*at == '\\') {
            escaped = true;
            at = check_escape(in, at);
            if (!at) return false;
            continue;
        }
        if ((unsigned char)*at < 0x20) return fail_at(in, at, "an escape instead of a control character");
        int n = msi_utf8_length(at, in->end);
        if (n <= 0) return fail_at(in, n ? in->end : at, "UTF-8");
        at += n;
    }
    *text = (struct msi_json_text){begin, (size_t)(at - begin), escaped};
    in->at = at + 1;
    return true;
}

/* The string whose quote is at in->at. */
static inline bool take_string(struct msi_json *in, struct msi_json_text *text) {
    const char *begin = in->at + 1, *at = msi_json_plain_end(begin, in->end);
    if (at == in->end || *at != '"') return string_rest(in, at, text);
    *text = (struct msi_json_text){begin, (size_t)(at - begin), false};
    in->at = at + 1;
    return true;
}

bool msi_json_string(struct msi_json *in, struct msi_json_text *text) {
    if (in->expected) return false;
    return next_is(in, '"') ? take_string(in, text) : msi_json_fail(in, "a string");
}

bool msi_json_key(struct msi_json *in, struct msi_json_text *key) {
    struct msi_json_text found;
    if (!next(in, '}', "',' or '}'")) return false;
    if (in->at == in->end || *in->at != '"') return msi_json_fail(in, in->first ? "a key or '}'" : "a key");
    if (!take_string(in, &found)) return false;
    if (!next_is(in, ':')) return msi_json_fail(in, "':'");
    in->at++;
    in->first = false;
    *key = found;
    return true;
}

/* Reads true, false or null; its first letter is known to match. */
static bool take_word(struct msi_json *in, const char *word) {
    size_t n = strlen(word), left = (size_t)(in->end - in->at);
    if (memcmp(in->at, word, n < left ? n : left) != 0) return msi_json_fail(in, word);
    if (left < n) return fail_at(in, in->end, word);
    if (left > n && (isalnum((unsigned char)in->at[n]) || in->at[n] == '_')) return msi_json_fail(in, word);
    in->at += n;
    return true;
}

bool msi_json_bool(struct msi_json *in, bool *value) {
    if (in->expected) return false;
    bool is = next_is(in, 't');
    if (!is && !next_is(in, 'f')) return msi_json_fail(in, "true or false");
    if (!take_word(in, is ? "true" : "false")) return false;
    *value = is;
    return true;
}

bool msi_json_null(struct msi_json *in) {
    if (in->expected) return false;
    return next_is(in, 'n') ? take_word(in, "null") : msi_json_fail(in, "null");
}

static bool take_number(struct msi_json *in, struct msi_json_number *number) {
    if (in->expected) return false;
    if (msi_json_peek(in) != MSI_JSON_NUMBER) return msi_json_fail(in, "a number");
    const char *wrong = msi_json_number_read(in->at, in->end, number);
    if (wrong) return fail_at(in, wrong, "a digit");
    in->at = number->end;
    return true;
}

bool msi_json_double(struct msi_json *in, double *value) {
    struct msi_json_number number;
    if (!take_number(in, &number)) return false;
    return msi_json_number_double(&number, value) || fail_at(in, number.begin, "a number below 1.8e308");
}

bool msi_json_int(struct msi_json *in, int64_t *value) {
    struct msi_json_number number;
    if (!take_number(in, &number)) return false;
    return msi_json_number_int(&number, value) ||
           fail_at(in, number.begin, "a whole number of at most 63 bits");
}

bool msi_json_skip(struct msi_json *in) {
    struct msi_json_text text;
    struct msi_json_number number;
    bool value;
    switch (msi_json_peek(in)) {
    case MSI_JSON_OBJECT:
        msi_json_object(in);
        while (msi_json_key(in, &text)) msi_json_skip(in);
        return !in->expected;
    case MSI_JSON_ARRAY:
        msi_json_array(in);
        while (msi_json_item(in)) msi_json_skip(in);
        return !in->expected;
    case MSI_JSON_STRING:
        return take_string(in, &text);
    case MSI_JSON_NUMBER:
        return take_number(in, &number);
    case MSI_JSON_BOOL:
        return msi_json_bool(in, &value);
    case MSI_JSON_NULL:
        return msi_json_null(in);
    default:
        return msi_json_fail(in, "a value");
    }
}

bool msi_json_raw(struct msi_json *in, struct msi_str *raw) {
    msi_json_peek(in);
    const char *begin = in->at;
    if (!msi_json_skip(in)) return false;
    *raw = msi_str(begin, (size_t)(in->at - begin));
    return true;
}

bool msi_json_end(struct msi_json *in) {
    if (in->expected) return false;
    next_is(in, 0);
    return in->at == in->end || msi_json_fail(in, "the end");
}

struct msi_json_place msi_json_place(const struct msi_json *in, const char *at) {
    struct msi_json_place place = {(size_t)(at - in->begin), 1, 1};
    for (const char *p = in->begin; p < at; p++) {
        place.column += ((unsigned char)*p & 0xc0) != 0x80; /* without continuation bytes */
        if (*p != '\n') continue;
        place.line++;
        place.column = 1;
    }
    return place;
}

/* The length of the printable text at the error. */
static size_t found(const struct msi_json *in) {
    enum { MOST = 24 };
    size_t n = 0;
    while (in->at + n < in->end && n < MOST && in->at[n] > ' ' && in->at[n] < 0x7f &&
           (n == 0 || !strchr(",:]}", in->at[n])))
        n++;
    return n;
}

void msi_json_explain(const struct msi_json *in, char *why, size_t size) {
    const char *expected = in->expected ? in->expected : "nothing else";
    size_t n = found(in);
    if (in->at == in->end)
        snprintf(why, size, "expected %s, not the end", expected);
    else if (n)
        snprintf(why, size, "expected %s, not '%.*s'", expected, (int)n, in->at);
    else
        snprintf(why, size, "expected %s, not byte 0x%02x", expected, (unsigned char)*in->at);
}

/* Encodes a character as UTF-8; returns the number of bytes. */
static size_t encode(int c, char to[4]) {
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--, c >>= 6) to[i] = (char)(0x80 | (c & 0x3f));
    to[0] = (char)(leads[n] | c);
    return n;
}

/* Decodes the next character of a valid string and moves *at. Returns the number of bytes. */
static size_t decode(const char **at, const char *end, char to[4]) {
    static const char escapes[] = "b\bf\fn\nr\rt\t";
    const char *p = *at;
    if (*p != '\\') {
        int n = (unsigned char)*p < 0x80 ? 1 : msi_utf8_length(p, end);
        memcpy(to, p, (size_t)n);
        *at = p + n;
        return (size_t)n;
    }
    *at = p + 2;
    if (p[1] != 'u') {
        const char *escape = strchr(escapes, p[1]);
        to[0] = escape ? escape[1] : p[1];
        return 1;
    }
    int c = hex(p + 2);
    *at = p + 6;
    if (!is_surrogate(c, 0xd800)) return encode(c, to);
    *at = p + 12;
    return encode(0x10000 + ((c - 0xd800) << 10) + (hex(p + 8) - 0xdc00), to);
}

size_t msi_json_copy(struct msi_json_text text, char *to, size_t size) {
    const char *at = text.p, *end = at + text.n;
    size_t whole = 0, kept = 0;
    while (at < end) {
        char c[4];
        size_t n = decode(&at, end, c);
        if (kept == whole && kept + n < size) {
            memcpy(to + kept, c, n);
            kept += n;
        }
        whole += n;
    }
    if (size) to[kept] = 0;
    return whole;
}

void msi_json_add(struct msi_json_text text, struct msi_buf *to) {
    if (!text.escaped) {
        msi_buf_add(to, text.p, text.n);
        return;
    }
    for (const char *at = text.p, *end = at + text.n; at < end;) {
        char c[4];
        msi_buf_add(to, c, decode(&at, end, c));
    }
}

bool msi_json_is_escaped(struct msi_json_text text, const char *value, size_t n) {
    size_t same = 0;
    for (const char *at = text.p, *end = at + text.n; at < end;) {
        char c[4];
        size_t len = decode(&at, end, c);
        if (len > n - same || memcmp(value + same, c, len) != 0) return false;
        same += len;
    }
    return same == n;
}
