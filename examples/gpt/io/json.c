/* json.c - see json.h. */
#include "io/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 32, MAX_NUMBER = 40 };

struct gpt_json gpt_json_of(const char *text, size_t length) {
    return (struct gpt_json){.at = text, .end = text + length};
}

static bool fail(struct gpt_json *in) {
    in->bad = true;
    return false;
}

/* The next character that is not white space, or 0. */
static char peek(struct gpt_json *in) {
    while (in->at < in->end && memchr(" \t\r\n", *in->at, 4)) in->at++;
    return in->bad || in->at == in->end ? 0 : *in->at;
}

static bool accept(struct gpt_json *in, char c) {
    if (peek(in) != c) return false;
    in->at++;
    return true;
}

bool gpt_json_open(struct gpt_json *in, char bracket) {
    if (in->depth == MAX_DEPTH || !accept(in, bracket)) return fail(in);
    in->depth++;
    return true;
}

/* After the bracket or a value: whether another value follows. */
static bool more(struct gpt_json *in, char bracket) {
    bool first = !in->bad && in->at[-1] == (bracket == '}' ? '{' : '[');
    if (accept(in, bracket)) {
        in->depth--;
        return false;
    }
    if (!first && !accept(in, ',')) return fail(in);
    char next = peek(in);
    return next && next != bracket ? true : fail(in);
}

bool gpt_json_item(struct gpt_json *in) {
    return more(in, ']');
}

bool gpt_json_key(struct gpt_json *in, char *key, size_t size) {
    if (!more(in, '}') || !gpt_json_string(in, key, size)) return false;
    return accept(in, ':') || fail(in);
}

static int hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = (char)(c | 32);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The character of \uXXXX as UTF-8 (surrogates are not combined); its length, or 0. */
static size_t unicode(struct gpt_json *in, char out[3]) {
    unsigned code = 0;
    for (int i = 0; i < 4; i++) {
        int digit = in->at < in->end ? hex(*in->at++) : -1;
        if (digit < 0) return 0;
        code = code << 4 | (unsigned)digit;
    }
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t n = 0;
    if (code < 0x800) {
        out[n++] = (char)(0xc0 | code >> 6);
    } else {
        out[n++] = (char)(0xe0 | code >> 12);
        out[n++] = (char)(0x80 | (code >> 6 & 63));
    }
    out[n++] = (char)(0x80 | (code & 63));
    return n;
}

/* One character of a string, escaped or not; its length, or 0. */
static size_t character(struct gpt_json *in, char out[3]) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    out[0] = *in->at++;
    if (out[0] != '\\') return (unsigned char)out[0] >= 32;
    char name = in->at < in->end ? *in->at++ : 0;
    if (name == 'u') return unicode(in, out);
    const char *found = name ? strchr(names, name) : NULL;
    if (found) out[0] = values[found - names];
    return found != NULL;
}

bool gpt_json_string(struct gpt_json *in, char *text, size_t size) {
    size_t n = 0;
    if (!accept(in, '"')) return fail(in);
    while (in->at < in->end && *in->at != '"') {
        char c[3];
        size_t length = character(in, c);
        if (length == 0 || (text && (n + length >= size || memchr(c, 0, length)))) return fail(in);
        if (text) memcpy(text + n, c, length);
        n += length;
    }
    if (in->at == in->end) return fail(in);
    in->at++;
    if (text) text[n] = 0;
    return true;
}

bool gpt_json_number(struct gpt_json *in, double *number) {
    char text[MAX_NUMBER + 1], *end;
    size_t n = 0;
    peek(in);
    while (!in->bad && in->at < in->end && n < MAX_NUMBER && memchr("+-.0123456789eE", *in->at, 15))
        text[n++] = *in->at++;
    text[n] = 0;
    double value = strtod(text, &end);
    if (n == 0 || n == MAX_NUMBER || *end) return fail(in);
    *number = value;
    return true;
}

bool gpt_json_count(struct gpt_json *in, uint64_t *count) {
    uint64_t value = 0;
    char c = peek(in);
    if (c < '0' || c > '9') return fail(in);
    while (in->at < in->end && *in->at >= '0' && *in->at <= '9') {
        uint64_t digit = (uint64_t)(*in->at++ - '0');
        if (value > ((uint64_t)INT64_MAX - digit) / 10) return fail(in);
        value = value * 10 + digit;
    }
    if (in->at < in->end && memchr(".eE", *in->at, 3)) return fail(in);
    *count = value;
    return true;
}

static bool accept_literal(struct gpt_json *in, const char *text) {
    size_t n = strlen(text);
    peek(in);
    if (in->bad || (size_t)(in->end - in->at) < n || memcmp(in->at, text, n) != 0) return false;
    in->at += n;
    return true;
}

bool gpt_json_bool(struct gpt_json *in, bool *value) {
    if (accept_literal(in, "true"))
        *value = true;
    else if (accept_literal(in, "false"))
        *value = false;
    else
        return fail(in);
    return true;
}

bool gpt_json_null(struct gpt_json *in) {
    return accept_literal(in, "null");
}

/* Without recursion, so that deep nesting cannot overflow the stack. */
bool gpt_json_skip(struct gpt_json *in) {
    bool value;
    double number;
    char open[MAX_DEPTH + 1];
    int begin = in->depth;
    do {
        char c = peek(in);
        if (c == '{' || c == '[') {
            if (!gpt_json_open(in, c)) return false;
            open[in->depth] = c;
        } else if (c == '"') {
            gpt_json_string(in, NULL, 0);
        } else if (c == 't' || c == 'f') {
            gpt_json_bool(in, &value);
        } else if (!gpt_json_null(in)) {
            gpt_json_number(in, &number);
        }
        while (!in->bad && in->depth > begin && !more(in, open[in->depth] == '{' ? '}' : ']')) {
        }
        if (in->depth > begin && open[in->depth] == '{' &&
            (!gpt_json_string(in, NULL, 0) || !accept(in, ':')))
            fail(in);
    } while (!in->bad && in->depth > begin);
    return !in->bad;
}

bool gpt_json_end(struct gpt_json *in) {
    return peek(in) == 0 && !in->bad && in->depth == 0;
}
