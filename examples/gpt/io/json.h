/*
 * json.h - a pull parser for config.json and the header of safetensors files, safe on hostile input. After an
 * error every call fails. Strings are unescaped into the caller's buffer; nothing else is copied.
 */
#ifndef GPT_IO_JSON_H
#define GPT_IO_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gpt_json {
    const char *at, *end;
    int depth;
    bool bad;
};

struct gpt_json gpt_json_of(const char *text, size_t length);

/*
 * Reads an object:  if (gpt_json_open(&in, '{')) while (gpt_json_key(&in, key, sizeof key)) ... one value
 * ...; and an array:     if (gpt_json_open(&in, '[')) while (gpt_json_item(&in)) ... one value ...; A key
 * that does not fit its buffer is an error.
 */
bool gpt_json_open(struct gpt_json *in, char bracket);
bool gpt_json_key(struct gpt_json *in, char *key, size_t size);
bool gpt_json_item(struct gpt_json *in);

bool gpt_json_string(struct gpt_json *in, char *text, size_t size);
bool gpt_json_number(struct gpt_json *in, double *number);
/* An integer from 0 to 2^63 - 1. */
bool gpt_json_count(struct gpt_json *in, uint64_t *count);
bool gpt_json_bool(struct gpt_json *in, bool *value);
/* Skips null; false, without moving, for another value. */
bool gpt_json_null(struct gpt_json *in);
/* Skips any value. */
bool gpt_json_skip(struct gpt_json *in);

/* Whether the whole text was valid and only white space is left. */
bool gpt_json_end(struct gpt_json *in);

#endif
