/*
 * main.c - a GPT: trained on a text, and writing text.
 *
 *   build/bin/gpt train --steps 200 --save /tmp/gpt
 *   build/bin/gpt generate --load /tmp/gpt --prompt "This License"
 */
#include "app/commands.h"
#include "app/fail.h"
#include "parallel/mesh.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * A launcher shows what the first process that ends has said, and ends the others: the one that speaks is to be the first. And who
 * has lost another is not to be taken for lost by a third.
 */
enum { SECONDS_BEHIND = 5 };

/* The words of a failure once for a job. */
static void say_failure(void) {
    if (!gpt_hushed()) fprintf(stderr, "gpt: %s\n", gpt_words());
    if (gpt_is_behind()) sleep(SECONDS_BEHIND);
}

static int run(int count, char **arguments) {
    static const struct {
        const char *name;
        int (*run)(const struct gpt_options *options);
        bool shared; /* by the processes of a mesh */
    } commands[] = {{"train", gpt_train, true},
                    {"generate", gpt_generate, true},
                    {"logits", gpt_logits, false},
                    {"matmul", gpt_measure, false}};
    struct gpt_options options;
    int st = gpt_options_parse(count, arguments, &options);
    if (st > 0) return 0;
    if (st) gpt_hush_all_but_first();
    if (st) return st;
    size_t i = 0;
    while (strcmp(options.command, commands[i].name) != 0) i++;
    if (!options.mesh && gpt_check_alone(commands[i].shared)) return -1;
    return commands[i].run(&options);
}

int main(int count, char **arguments) {
    int st = run(count, arguments);
    bool written = fflush(stdout) == 0 && !ferror(stdout);
    if (st == 0 && !written) st = gpt_fail("what was printed could not be written");
    if (st) say_failure();
    return st ? 1 : 0;
}
