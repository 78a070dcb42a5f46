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

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        int (*run)(const struct gpt_options *options);
    } commands[] = {
        {"train", gpt_train}, {"generate", gpt_generate}, {"logits", gpt_logits}, {"matmul", gpt_measure}};
    struct gpt_options options;
    int st = gpt_options_parse(count, arguments, &options);
    if (st > 0) return 0;
    if (st == 0) {
        st = gpt_fail("%s: there is no such command; gpt --help lists them", options.command);
        for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
            if (strcmp(options.command, commands[i].name) == 0) st = commands[i].run(&options);
    }
    if (st) fprintf(stderr, "gpt: %s\n", gpt_words());
    return st ? 1 : 0;
}
