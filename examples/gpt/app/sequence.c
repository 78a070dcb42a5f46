/* sequence.c - see sequence.h. */
#include "app/sequence.h"

#include "base/fail.h"

#include <stdlib.h>

int gpt_sequence_append(struct gpt_sequence *s, int token) {
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 256;
        int *tokens = realloc(s->tokens, capacity * sizeof *tokens);
        if (!tokens) return gpt_fail("no memory");
        s->tokens = tokens;
        s->capacity = capacity;
    }
    s->tokens[s->count++] = token;
    return 0;
}

static int append_ids(struct gpt_sequence *s, const char *ids) {
    char *end = NULL;
    int st = 0;
    for (const char *c = ids; *c && !st; c = *end == ',' ? end + 1 : end) {
        long id = strtol(c, &end, 10);
        if (end == c || (*end && *end != ',') || id < 0 || id > 1 << 20)
            return gpt_fail("%s: expected numbers separated by commas", ids);
        st = gpt_sequence_append(s, (int)id);
    }
    return st;
}

int gpt_sequence_append_prompt(struct gpt_sequence *s, const char *prompt, bool numbers) {
    if (numbers) return append_ids(s, prompt);
    for (const char *c = prompt; *c; c++)
        if (gpt_sequence_append(s, (unsigned char)*c)) return -1;
    return 0;
}

int gpt_sequence_read_prompt(const struct gpt_options *o, struct gpt_sequence *s) {
    if (gpt_sequence_append_prompt(s, o->ids ? o->ids : o->prompt, o->ids)) return -1;
    return s->count ? 0 : gpt_fail("empty prompt: give at least one token");
}
