/* text.h - quotes arguments for a shell, and removes control characters from foreign text. Pure. */
#ifndef MUSTER_TOOL_CLI_TEXT_H
#define MUSTER_TOOL_CLI_TEXT_H

#include "base/buf.h"

/* Appends an argument so that any POSIX shell reads it back byte for byte. */
void text_quote(struct msi_buf *to, const char *argument);

/*
 * Makes text safe to print on a terminal: control characters, those of U+0080 to U+009F included, become
 * question marks. keep_newlines: newlines and tabs stay.
 */
void text_clean(char *text, bool keep_newlines);

#endif
