/*
 * output.c - prints in every way, as its command line says.
 *
 *   output [action ...]
 *
 * Actions that print a text: printf=T part=T (no newline) puts=T write=T child=T (by a shell) one=T
 * (mst_printf) all=T (mst_printf_all). Others: init, barrier, destroy, suppress[=R], restore, bad (suppress
 * with rank -1), flush, cloexec, close (descriptor 1). Actions that report on standard error: err=T,
 * buffering, flags, open (of descriptor 1). The results of mst_printf and mst_printf_all go there, too.
 */
#include <fcntl.h>
#include <muster/muster.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void run_child(const char *text) {
    char command[256];
    snprintf(command, sizeof command, "echo '%s'", text);
    fflush(stdout);
    if (system(command)) exit(3);
}

static void show_buffering(void) {
    fprintf(stderr, "%s\n", __fbufsize(stdout) == 0 ? "undecided" : __flbf(stdout) ? "line" : "full");
}

static void check(mst_status status) {
    if (status == MST_OK) return;
    fprintf(stderr, "%s: %s\n", mst_status_name(status), mst_error());
    exit(1);
}

static void act(const char *name, const char *value) {
    if (!strcmp(name, "init"))
        check(mst_init());
    else if (!strcmp(name, "destroy"))
        check(mst_destroy_process_group(NULL));
    else if (!strcmp(name, "suppress"))
        check(mst_suppress_output(*value ? atoi(value) : mst_get_rank(NULL)));
    else if (!strcmp(name, "restore"))
        check(mst_restore_output());
    else if (!strcmp(name, "bad"))
        fprintf(stderr, "%s\n", mst_status_name(mst_suppress_output(-1)));
    else if (!strcmp(name, "printf"))
        printf("%s\n", value);
    else if (!strcmp(name, "part"))
        printf("%s", value);
    else if (!strcmp(name, "puts"))
        puts(value);
    else if (!strcmp(name, "write"))
        dprintf(STDOUT_FILENO, "%s\n", value);
    else if (!strcmp(name, "all"))
        fprintf(stderr, "%d\n", mst_printf_all("%s\n", value));
    else if (!strcmp(name, "one"))
        fprintf(stderr, "%d\n", mst_printf("%s\n", value));
    else if (!strcmp(name, "child"))
        run_child(value);
    else if (!strcmp(name, "err"))
        fprintf(stderr, "%s\n", value);
    else if (!strcmp(name, "flush"))
        fflush(stdout);
    else if (!strcmp(name, "buffering"))
        show_buffering();
    else if (!strcmp(name, "cloexec"))
        fcntl(STDOUT_FILENO, F_SETFD, FD_CLOEXEC);
    else if (!strcmp(name, "flags"))
        fprintf(stderr, "%x %x\n", fcntl(STDOUT_FILENO, F_GETFD), fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE);
    else if (!strcmp(name, "open"))
        fprintf(stderr, "%d\n", fcntl(STDOUT_FILENO, F_GETFD) >= 0);
    else if (!strcmp(name, "close"))
        close(STDOUT_FILENO);
    else if (!strcmp(name, "barrier"))
        check(mst_barrier());
    else
        exit(2);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        if (equals) *equals = 0;
        act(argv[i], equals ? equals + 1 : "");
    }
    return 0;
}
