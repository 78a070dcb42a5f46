/* fields.c - see fields.h. */
#include "report/fields.h"

#include <math.h>

bool report_read_number(struct msi_json *in, int64_t least, int64_t most, int64_t *value) {
    int64_t number;
    if (!msi_json_int(in, &number)) return false;
    if (number < least || number > most) return msi_json_fail(in, "a number within its limits");
    *value = number;
    return true;
}

static void read_us(struct msi_json *in, int64_t least, int64_t most, int64_t *ns) {
    double us;
    if (!msi_json_double(in, &us)) return;
    if (us < (double)least / 1000 || us > (double)most / 1000)
        msi_json_fail(in, "a time within its limits");
    else
        *ns = (int64_t)llround(us * 1000);
}

static void read_field(struct msi_json *in, const struct report_field *field, void *object) {
    void *to = (char *)object + field->offset;
    switch (field->type) {
    case REPORT_TEXT:
        if (msi_json_peek(in) == MSI_JSON_NULL)
            msi_json_null(in);
        else
            msi_json_string(in, to);
        break;
    case REPORT_BOOL:
        msi_json_bool(in, to);
        break;
    case REPORT_NUMBER:
        report_read_number(in, field->least, field->most, to);
        break;
    case REPORT_US:
        read_us(in, field->least, field->most, to);
        break;
    case REPORT_DOUBLE:
        msi_json_double(in, to);
        break;
    case REPORT_RAW:
        msi_json_raw(in, to);
        break;
    case REPORT_OBJECT:
        report_read_object(in, field->fields, object);
        break;
    case REPORT_ARRAY:
        if (msi_json_array(in))
            while (msi_json_item(in)) field->read_item(in, object);
        break;
    }
}

static bool has_key(const struct report_field *field, struct msi_json_text key) {
    return field->len == key.n && !key.escaped && memcmp(field->key, key.p, key.n) == 0;
}

/* Searches from next to the end of the table, then from its beginning. */
static const struct report_field *find_field(const struct report_field *fields,
                                             const struct report_field *next, struct msi_json_text key) {
    for (const struct report_field *f = next; f->key; f++)
        if (has_key(f, key)) return f;
    for (const struct report_field *f = fields; f < next; f++)
        if (has_key(f, key)) return f;
    return NULL;
}

void report_read_object(struct msi_json *in, const struct report_field *fields, void *object) {
    const struct report_field *next = fields;
    struct msi_json_text key;
    if (!msi_json_object(in)) return;
    while (msi_json_key(in, &key)) {
        const struct report_field *field = find_field(fields, next, key);
        if (field) {
            read_field(in, field, object);
            next = field + 1;
        } else {
            msi_json_skip(in);
        }
    }
}
