/* sequence.c - tokens that grow in number. */
#include "sequence.h"

#include "fail.h"

#include <stdlib.h>

int gpt_append(struct gpt_sequence *s, int token) {
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 256;
        int *tokens = realloc(s->tokens, room * sizeof *tokens);
        if (!tokens) return gpt_fail("no memory");
        s->tokens = tokens;
        s->room = room;
    }
    s->tokens[s->count++] = token;
    return 0;
}

int gpt_read_prompt(const struct gpt_options *o, struct gpt_sequence *s) {
    int st = 0;
    if (!o->ids) {
        for (const char *c = o->prompt; *c && !st; c++) st = gpt_append(s, (unsigned char)*c);
    } else {
        char *end = NULL;
        for (const char *c = o->ids; *c && !st; c = *end == ',' ? end + 1 : end) {
            long id = strtol(c, &end, 10);
            if (end == c || (*end && *end != ',') || id < 0 || id > 1 << 20)
                return gpt_fail("--ids %s: numbers with commas between are expected", o->ids);
            st = gpt_append(s, (int)id);
        }
    }
    return st || s->count ? st : gpt_fail("an empty prompt: give at least one token to go on from");
}
