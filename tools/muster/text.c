/* text.c - see text.h. */
#include "text.h"

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
