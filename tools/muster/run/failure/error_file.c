/* error_file.c - see error_file.h. The file is a rank's: it may be anything, of any size. */
#include "run/failure/error_file.h"

#include "cli/text.h"

#include <cjson/cJSON.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* All of a plain file, NULL if it is none, empty or too large. */
static char *read_whole(const char *path, size_t *len) {
    struct stat st;
    char *data = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    *len = 0;
    if (fd < 0) return NULL;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= ERROR_FILE_LIMIT)
        data = malloc(ERROR_FILE_LIMIT + 1);
    for (ssize_t n = 1; data != NULL && n > 0 && *len <= ERROR_FILE_LIMIT; *len += n > 0 ? (size_t)n : 0)
        n = read(fd, data + *len, ERROR_FILE_LIMIT + 1 - *len);
    close(fd);
    if (*len > 0 && *len <= ERROR_FILE_LIMIT) return data;
    free(data);
    return NULL;
}

static void drop_last_newlines(char *text) {
    size_t len = strlen(text);

    while (len > 0 && text[len - 1] == '\n') text[--len] = '\0';
}

void error_file_read(const char *path, char *text, size_t size) {
    size_t len;
    char *data = read_whole(path, &len);

    text[0] = '\0';
    if (data == NULL) return;
    cJSON *json = cJSON_ParseWithLength(data, len);
    const cJSON *message = cJSON_GetObjectItemCaseSensitive(json, "message");
    if (cJSON_IsObject(message)) message = cJSON_GetObjectItemCaseSensitive(message, "message");
    if (cJSON_IsString(message)) snprintf(text, size, "%s", message->valuestring);
    drop_last_newlines(text);
    text_clean(text, true);
    cJSON_Delete(json);
    free(data);
}
