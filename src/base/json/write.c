/* write.c - the JSON writer. See json.h. */
#include "base/json.h"
#include "base/json/parts.h"

#include <math.h>
#include <stdio.h>

static void put(struct msi_json_out *out, const char *text, size_t n) {
    if (out->comma) msi_buf_add_u8(out->to, ',');
    msi_buf_add(out->to, text, n);
    out->comma = true;
}

static void put_open(struct msi_json_out *out, char c) {
    put(out, &c, 1);
    out->comma = false;
}

static void put_close(struct msi_json_out *out, char c) {
    msi_buf_add_u8(out->to, (uint8_t)c);
    out->comma = true;
}

void msi_json_put_object(struct msi_json_out *out) {
    put_open(out, '{');
}

void msi_json_put_object_end(struct msi_json_out *out) {
    put_close(out, '}');
}

void msi_json_put_array(struct msi_json_out *out) {
    put_open(out, '[');
}

void msi_json_put_array_end(struct msi_json_out *out) {
    put_close(out, ']');
}

/* Writes the character at at that is not plain; returns its length in the text. */
static size_t add_special(struct msi_buf *to, const char *at, const char *end) {
    static const char letters[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    unsigned char byte = (unsigned char)*at;
    if (byte >= 0x80) {
        int n = msi_utf8_length(at, end);
        msi_buf_add(to, n > 0 ? at : "\xef\xbf\xbd", n > 0 ? (size_t)n : 3);
        return n > 0 ? (size_t)n : 1;
    }
    for (const char *letter = letters; *letter; letter += 2)
        if (*letter == *at) {
            const char escape[] = {'\\', letter[1]};
            msi_buf_add(to, escape, 2);
            return 1;
        }
    msi_buf_add_format(to, "\\u%04x", byte);
    return 1;
}

void msi_json_put_text(struct msi_json_out *out, struct msi_str text) {
    const char *at = text.p, *end = text.n ? at + text.n : at;
    put(out, "\"", 1);
    while (at < end) {
        const char *plain = msi_json_plain_end(at, end);
        msi_buf_add(out->to, at, (size_t)(plain - at));
        at = plain;
        if (at < end) at += add_special(out->to, at, end);
    }
    msi_buf_add_u8(out->to, '"');
}

void msi_json_put_key(struct msi_json_out *out, const char *key) {
    msi_json_put_string(out, key);
    msi_buf_add_u8(out->to, ':');
    out->comma = false;
}

enum { NUMBER_MOST = 48 }; /* a sign, 20 digits, a point, zeros */

/* Writes value so that it ends before end, with a point before the decimals; returns its first byte. */
static char *digits(char *end, uint64_t value, int decimals) {
    for (int i = 0; value || i <= decimals; i++, value /= 10) {
        if (i == decimals && i > 0) *--end = '.';
        *--end = (char)('0' + value % 10);
    }
    return end;
}

static void put_number(struct msi_json_out *out, bool negative, uint64_t value, int decimals) {
    char text[NUMBER_MOST], *end = text + sizeof text, *at = digits(end, value, decimals);
    if (negative) *--at = '-';
    put(out, at, (size_t)(end - at));
}

void msi_json_put_uint(struct msi_json_out *out, uint64_t value) {
    put_number(out, false, value, 0);
}

void msi_json_put_int(struct msi_json_out *out, int64_t value) {
    msi_json_put_scaled(out, value, 0);
}

void msi_json_put_scaled(struct msi_json_out *out, int64_t value, int decimals) {
    put_number(out, value < 0, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, decimals);
}

/* A double from 2^63 on has no fraction but many digits. */
static void put_huge(struct msi_json_out *out, double value, int decimals) {
    char text[400];
    int n = snprintf(text, sizeof text, "%.0f", value);
    put(out, text, (size_t)n);
    for (int i = 0; i < decimals; i++) msi_buf_add(out->to, i ? "0" : ".0", i ? 1 : 2);
}

void msi_json_put_double(struct msi_json_out *out, double value, int decimals) {
    double size = fabs(value);
    if (!isfinite(value)) {
        msi_json_put_null(out);
        return;
    }
    if (size >= 0x1p63) {
        put_huge(out, value, decimals);
        return;
    }
    uint64_t scale = 1, whole = (uint64_t)size;
    for (int i = 0; i < decimals; i++) scale *= 10;
    uint64_t fraction = (uint64_t)((size - (double)whole) * (double)scale + 0.5);
    if (fraction == scale) {
        whole++;
        fraction = 0;
    }
    char text[NUMBER_MOST], *end = text + sizeof text, *at = end;
    if (decimals) at = digits(end, fraction, decimals) + 1; /* without the 0 before the point */
    at = digits(at, whole, 0);
    if (value < 0 && (whole || fraction)) *--at = '-';
    put(out, at, (size_t)(end - at));
}

void msi_json_put_bool(struct msi_json_out *out, bool value) {
    put(out, value ? "true" : "false", value ? 4 : 5);
}

void msi_json_put_null(struct msi_json_out *out) {
    put(out, "null", 4);
}

void msi_json_put_raw(struct msi_json_out *out, struct msi_str value) {
    put(out, value.p, value.n);
}
