/* jobs.c - see jobs.h. A card is three lines: address, run, command line. Cards of others are not trusted. */
#include "status/jobs.h"

#include "cli/text.h"

#include "base/proc_fd.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#define CARD_NAME "muster-job"
enum { CARD_SIZE = 1024 };

struct msi_segment jobs_announce(const struct msi_address *store, const char *run, char *const *argv) {
    struct msi_segment segment = {.fd = -1};
    char address[MSI_ADDRESS_TEXT_MAX];
    struct msi_buf program = {0};
    for (int i = 0; argv[i]; i++) msi_buf_add_format(&program, "%s%s", i ? " " : "", argv[i]);
    if (msi_segment_make(CARD_NAME, CARD_SIZE, &segment) == MST_OK)
        snprintf(segment.base, CARD_SIZE, "%s\n%s\n%.*s\n", msi_address_format(store, address),
                 run ? run : "", JOBS_PROGRAM_MAX - 1, msi_buf_text(&program));
    msi_buf_free(&program);
    return segment;
}

/* Moves the next line of *rest to out. */
static void take_line(char **rest, char *out, size_t size) {
    char *line = strsep(rest, "\n");
    snprintf(out, size, "%s", line ? line : "");
    text_clean(out, false);
}

static bool read_card(int pid, int descriptor, struct job_card *card) {
    char text[CARD_SIZE], *rest = text;
    struct stat info;
    int fd = msi_proc_open_memfd(pid, descriptor, &info);
    if (fd < 0) return false;
    ssize_t n = info.st_size == CARD_SIZE ? pread(fd, text, sizeof text - 1, 0) : -1;
    close(fd);
    if (n < 0) return false;
    text[n] = '\0';
    *card = (struct job_card){.pid = pid};
    take_line(&rest, card->address, sizeof card->address);
    take_line(&rest, card->run, sizeof card->run);
    take_line(&rest, card->program, sizeof card->program);
    return card->address[0] != '\0';
}

bool jobs_of(int pid, struct job_card *card) {
    static const char wanted[] = "/memfd:" CARD_NAME " ", secret[] = "/memfd:muster-secret ";
    char path[64], target[64], secret_path[48] = "";
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);
        if (n < 0) continue;
        target[n] = '\0';
        if (!strncmp(target, secret, sizeof secret - 1))
            snprintf(secret_path, sizeof secret_path, "/proc/%d/fd/%d", pid, atoi(entry->d_name));
        if (!found && !strncmp(target, wanted, sizeof wanted - 1))
            found = read_card(pid, atoi(entry->d_name), card);
    }
    if (dir) closedir(dir);
    if (found) strcpy(card->secret, secret_path);
    return found;
}

/* Launchers of one job share its store. */
static int add(struct job_card *list, int n, const struct job_card *card) {
    for (int i = 0; i < n; i++) {
        if (strcmp(list[i].address, card->address) != 0) continue;
        if (!list[i].run[0]) list[i] = *card;
        return n;
    }
    list[n] = *card;
    return n + 1;
}

int jobs_find(struct job_card *list) {
    struct job_card card;
    int n = 0;
    DIR *dir = opendir("/proc");
    for (struct dirent *entry; dir && n < JOBS_MOST && (entry = readdir(dir)) != NULL;)
        if (isdigit((unsigned char)entry->d_name[0]) && jobs_of(atoi(entry->d_name), &card))
            n = add(list, n, &card);
    if (dir) closedir(dir);
    return n;
}
