/* config.c - see config.h. */
#include "nn/config.h"

#include "base/fail.h"

enum { MAX_SIZE = 1 << 20, MAX_LAYERS = 1000 };

int gpt_config_check(const struct gpt_config *c) {
    const struct {
        const char *name;
        size_t value, max;
    } sizes[] = {{"vocabulary", c->vocabulary, MAX_SIZE}, {"context", c->context, MAX_SIZE},
                 {"layers", c->layers, MAX_LAYERS},       {"width", c->width, MAX_SIZE},
                 {"heads", c->heads, MAX_SIZE},           {"inner width", c->inner, MAX_SIZE}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value == 0 || sizes[i].value > sizes[i].max)
            return gpt_fail("%s is %zu; it must be from 1 to %zu", sizes[i].name, sizes[i].value,
                            sizes[i].max);
    if (c->width % c->heads) return gpt_fail("width %zu is not a multiple of %zu heads", c->width, c->heads);
    if (!(c->epsilon > 0 && c->epsilon < 1))
        return gpt_fail("the norms' epsilon is %g; it must be between 0 and 1", (double)c->epsilon);
    return 0;
}
