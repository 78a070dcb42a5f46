/* text.c - see text.h. */
#include "cli/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_bytes(struct text *t, const char *data, size_t len) {
    if (!t->failed && t->len + len + 1 > t->capacity) {
        size_t capacity = (t->len + len + 1) * 2;
        char *grown = realloc(t->data, capacity);

        t->failed = grown == NULL;
        if (grown != NULL) {
            t->data = grown;
            t->capacity = capacity;
        }
    }
    if (t->failed) return;
    memcpy(t->data + t->len, data, len);
    t->len += len;
    t->data[t->len] = '\0';
}

void text_add(struct text *t, const char *more) {
    add_bytes(t, more, strlen(more));
}

void text_format(struct text *t, const char *format, ...) {
    char *made;
    va_list args;

    va_start(args, format);
    int len = vasprintf(&made, format, args);
    va_end(args);
    if (len < 0) {
        t->failed = true;
        return;
    }
    add_bytes(t, made, (size_t)len);
    free(made);
}

/* Between single quotes nothing has a meaning but the quote itself, which is put in between: 'it'\''s'. */
void text_quote(struct text *t, const char *word) {
    add_bytes(t, "'", 1);
    for (;;) {
        size_t plain = strcspn(word, "'");

        add_bytes(t, word, plain);
        if (word[plain] == '\0') break;
        add_bytes(t, "'\\''", 4);
        word += plain + 1;
    }
    add_bytes(t, "'", 1);
}

void text_free(struct text *t) {
    free(t->data);
    *t = (struct text){0};
}

void text_put(struct text_room *room, const char *format, ...) {
    va_list args;

    va_start(args, format);
    int n = vsnprintf(room->at, room->left, format, args);
    va_end(args);
    if (n < 0) return;
    size_t used = (size_t)n < room->left ? (size_t)n : room->left - 1;
    room->at += used;
    room->left -= used;
}

/* U+0080 to U+009F begin commands just as ESC does; in UTF-8 they are C2 80 to C2 9F. */
void text_clean(char *text, bool keep_newlines) {
    for (unsigned char *c = (unsigned char *)text; *c != '\0'; c++) {
        bool kept = keep_newlines && (*c == '\n' || *c == '\t');

        if (*c == 0xc2 && c[1] >= 0x80 && c[1] <= 0x9f)
            c[0] = c[1] = '?';
        else if ((*c < ' ' && !kept) || *c == 0x7f)
            *c = '?';
    }
}
