/*
 * main.c - a GPT: trained on a text, and writing text.
 *
 *   build/bin/gpt train --steps 200 --save /tmp/gpt
 *   build/bin/gpt generate --load /tmp/gpt --prompt "This License"
 */
#include "commands.h"
#include "fail.h"

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
    } commands[] = {
        {"train", gpt_train}, {"generate", gpt_generate}, {"logits", gpt_logits}, {"matmul", gpt_measure}};
    struct gpt_options options;
    int st = gpt_options_parse(count, arguments, &options);
    if (st > 0) return 0;
    for (size_t i = 0; i < sizeof commands / sizeof *commands && st == 0; i++)
        if (strcmp(options.command, commands[i].name) == 0) return commands[i].run(&options);
    gpt_hush_all_but_first();
    return st ? st : gpt_fail("%s: there is no such command; gpt --help lists them", options.command);
}

int main(int count, char **arguments) {
    int st = run(count, arguments);
    bool written = fflush(stdout) == 0 && !ferror(stdout);
    if (st == 0 && !written) st = gpt_fail("what was printed could not be written");
    if (st) say_failure();
    return st ? 1 : 0;
}
