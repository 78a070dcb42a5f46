/*
 * text.h - text that grows, text that has a room of fixed size, words quoted for a POSIX shell, and text made fit for a
 * terminal. Where memory runs out a text that grows is marked as failed and takes nothing more, so that only the end has to
 * look. The creator frees it; one thread at a time.
 */
#ifndef MUSTER_TOOL_CLI_TEXT_H
#define MUSTER_TOOL_CLI_TEXT_H

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

/* Where the rest of a text goes: left bytes with the NUL, at least one; what does not fit is left out. */
struct text_room {
    char *at;
    size_t left;
};
void text_put(struct text_room *room, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Makes a text that others wrote harmless to a terminal: control characters, those of Unicode's second set as well, become
 * question marks. keep_newlines: line ends and tabs stay, for what is shown as several lines.
 */
void text_clean(char *text, bool keep_newlines);

#endif
