/*
 * replay_main.c - stands in for libFuzzer where it is not built in: gives the target every file named on the
 * command line or lying in a directory named there. No input at all is a failure.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *path) {
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(1);
}

static void replay_file(const char *path, size_t size) {
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1); /* exactly as large as the input, so that ASan sees an overrun */
    if (!file || !data || fread(data, 1, size, file) != size) fail(path);
    fclose(file);
    printf("%s\n", path);
    fflush(stdout);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
}

static int replay(const char *path);

static int replay_directory(const char *path) {
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);
    int inputs = 0;
    if (count < 0) fail(path);
    for (int i = 0; i < count; i++) {
        char inside[4096];
        snprintf(inside, sizeof inside, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') inputs += replay(inside);
        free(entries[i]);
    }
    free(entries);
    return inputs;
}

/* Returns how many inputs lay there. */
static int replay(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) fail(path);
    if (S_ISDIR(info.st_mode)) return replay_directory(path);
    replay_file(path, (size_t)info.st_size);
    return 1;
}

int main(int argc, char **argv) {
    int inputs = 0;
    for (int i = 1; i < argc; i++) inputs += replay(argv[i]);
    printf("%d inputs replayed\n", inputs);
    return inputs > 0 ? 0 : 1;
}
