/*
 * text.h - text that grows, and words quoted for a POSIX shell. Where memory runs out the text is marked as failed and
 * takes nothing more, so that only the end has to look. The creator frees it; one thread at a time.
 */
#ifndef MUSTER_TOOL_TEXT_H
#define MUSTER_TOOL_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct text {
    char *data; /* NUL-terminated; NULL while empty */
    size_t len, capacity;
    bool failed;
};

void text_add(struct text *text, const char *more);
void text_format(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds word so that a shell of any POSIX kind reads it back byte for byte. */
void text_quote(struct text *text, const char *word);

void text_free(struct text *text);

#endif
