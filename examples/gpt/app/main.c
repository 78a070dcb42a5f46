/*
 * main.c - a GPT: trains on a text, then generates text.
 *
 *   build/bin/gpt train --steps 200 --save /tmp/gpt
 *   build/bin/gpt generate --load /tmp/gpt --prompt "This License"
 */
#include "app/commands.h"
#include "base/fail.h"
#include "parallel/mesh.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * A launcher reports the first process that exits, and stops the others. So the process that prints the error
 * exits first. And a process that lost a peer exits later, so that no third process reports it as the lost
 * one.
 */
enum { LATE_SECONDS = 5 };

/* One process of a job prints the message. */
static void report_failure(void) {
    if (!gpt_muted()) fprintf(stderr, "gpt: %s\n", gpt_error());
    if (gpt_exits_late()) sleep(LATE_SECONDS);
}

static int run(int count, char **arguments) {
    static const struct {
        const char *name;
        int (*run)(const struct gpt_options *options);
        bool has_mesh; /* accepts --mesh */
    } commands[] = {{"train", gpt_train, true},
                    {"generate", gpt_generate, true},
                    {"logits", gpt_logits, false},
                    {"matmul", gpt_matmul_bench, false}};
    struct gpt_options options;
    int st = gpt_options_parse(count, arguments, &options);
    if (st > 0) return 0;
    if (st) gpt_mute_unless_first();
    if (st) return st;
    size_t i = 0;
    while (strcmp(options.command, commands[i].name) != 0) i++;
    if (!options.mesh && gpt_check_alone(commands[i].has_mesh)) return -1;
    return commands[i].run(&options);
}

int main(int count, char **arguments) {
    int st = run(count, arguments);
    bool written = fflush(stdout) == 0 && !ferror(stdout);
    if (st == 0 && !written) st = gpt_fail("cannot write to standard output");
    if (st) report_failure();
    return st ? 1 : 0;
}
