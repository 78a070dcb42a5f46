/*
 * fields.h - reads a JSON object into a struct by a table of its keys. Unknown keys are skipped. A number
 * outside its limits or a value of another type is an error of the reader. Texts point into the input.
 */
#ifndef MUSTER_TOOL_REPORT_FIELDS_H
#define MUSTER_TOOL_REPORT_FIELDS_H

#include "base/json.h"

enum report_field_type {
    REPORT_TEXT,   /* struct msi_json_text; null leaves it as it is */
    REPORT_BOOL,   /* bool */
    REPORT_NUMBER, /* int64_t */
    REPORT_US,     /* int64_t in nanoseconds, from microseconds */
    REPORT_DOUBLE, /* double */
    REPORT_RAW,    /* struct msi_str: the JSON text of the value */
    REPORT_OBJECT, /* fields of the same struct */
    REPORT_ARRAY,  /* read_item reads each item */
};

/* In the order in which files have them: the search for a key starts after the previous one. */
struct report_field {
    const char *key; /* NULL: the end of the table */
    size_t len;      /* of key */
    enum report_field_type type;
    size_t offset;
    int64_t least, most; /* of a number, or of nanoseconds */
    const struct report_field *fields;
    void (*read_item)(struct msi_json *in, void *object);
};

#define REPORT_KEY(key, type) key, sizeof(key) - 1, REPORT_##type
/* A field that is neither an object nor an array: key, type, offset, least, most. */
#define REPORT_FIELD(key, type, ...)                                                                         \
    { REPORT_KEY(key, type), __VA_ARGS__, NULL, NULL }

void report_read_object(struct msi_json *in, const struct report_field *fields, void *object);

/* Reads an integer within limits. */
bool report_read_number(struct msi_json *in, int64_t least, int64_t most, int64_t *value);

#endif
