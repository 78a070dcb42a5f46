/*
 * fuzz_json.c - any bytes as JSON. Reading all and skipping all agree on what is right; what was read and
 * written again is right and stays the same; numbers are what strtod makes of them.
 */
#include "base/json.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void copy_text(struct msi_json_text text, struct msi_json_out *out) {
    struct msi_buf value = {0};
    char small[9];
    msi_json_add(text, &value);
    size_t n = msi_json_copy(text, small, sizeof small), kept = n < sizeof small ? n : 0;
    assert(n == value.len && (kept == 0 || !memcmp(small, value.data, kept)));
    if (!memchr(small, 0, kept) && kept) assert(msi_json_is(text, small));
    msi_json_put_text(out, msi_buf_str(&value));
    msi_buf_free(&value);
}

static void copy_number(struct msi_json *in, struct msi_json_out *out) {
    struct msi_json as_int = *in, as_double = *in;
    struct msi_str raw;
    int64_t integer;
    double value;
    if (!msi_json_raw(in, &raw)) return;
    char *text = malloc(raw.n + 1);
    assert(text);
    memcpy(text, raw.p, raw.n);
    text[raw.n] = 0;
    double wanted = strtod(text, NULL);
    if (msi_json_double(&as_double, &value))
        assert(!memcmp(&value, &wanted, sizeof value) && as_double.at == in->at);
    else
        assert(isinf(wanted));
    if (msi_json_int(&as_int, &integer)) assert((double)integer == wanted && as_int.at == in->at);
    msi_json_put_raw(out, raw);
    free(text);
}

static void copy_value(struct msi_json *in, struct msi_json_out *out) {
    struct msi_json_text text;
    struct msi_buf key = {0};
    bool value = false;
    switch (msi_json_peek(in)) {
    case MSI_JSON_OBJECT:
        msi_json_object(in);
        msi_json_put_object(out);
        while (msi_json_key(in, &text)) {
            key.len = 0;
            msi_json_add(text, &key);
            msi_buf_add_u8(&key, 0);
            msi_json_put_key(out, (char *)key.data); /* up to a 0 in it */
            copy_value(in, out);
        }
        msi_json_put_object_end(out);
        msi_buf_free(&key);
        break;
    case MSI_JSON_ARRAY:
        msi_json_array(in);
        msi_json_put_array(out);
        while (msi_json_item(in)) copy_value(in, out);
        msi_json_put_array_end(out);
        break;
    case MSI_JSON_STRING:
        if (msi_json_string(in, &text)) copy_text(text, out);
        break;
    case MSI_JSON_NUMBER:
        copy_number(in, out);
        break;
    case MSI_JSON_BOOL:
        msi_json_bool(in, &value);
        msi_json_put_bool(out, value);
        break;
    case MSI_JSON_NULL:
        msi_json_null(in);
        msi_json_put_null(out);
        break;
    default:
        msi_json_fail(in, "a value");
    }
}

/* Appends what was read to copy. */
static bool copy_all(struct msi_str text, struct msi_buf *copy) {
    struct msi_json in = msi_json_of(text.p, text.n);
    struct msi_json_out out = msi_json_to(copy);
    copy_value(&in, &out);
    return msi_json_end(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct msi_buf first = {0}, second = {0};
    struct msi_json in = msi_json_of((const char *)data, size);
    char why[100];
    msi_json_skip(&in);
    bool right = msi_json_end(&in);
    struct msi_json_place place = msi_json_place(&in, in.at);
    assert(place.offset <= size && place.line >= 1 && place.column >= 1 && (!right || !in.expected));
    msi_json_explain(&in, why, sizeof why);
    assert(copy_all(msi_str(data, size), &first) == right);
    if (right) {
        assert(copy_all(msi_buf_str(&first), &second));
        assert(msi_str_equal(msi_buf_str(&first), msi_buf_str(&second)));
    }
    struct msi_json_out out = msi_json_to(&second); /* whatever is given is written as a right string */
    second.len = 0;
    msi_json_put_text(&out, msi_str(data, size));
    in = msi_json_of((const char *)second.data, second.len);
    assert(second.failed || (msi_json_skip(&in) && msi_json_end(&in)));
    msi_buf_free(&first);
    msi_buf_free(&second);
    return 0;
}
