/* error_file.c - reads a rank's error file. See failure.h. Its contents are not trusted. */
#include "run/failure/failure.h"

#include "base/json.h"
#include "cli/text.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* The contents of a regular file, or NULL if it is not one, empty or too large. */
static char *read_whole(const char *path, size_t *len) {
    struct stat st;
    char *data = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    *len = 0;
    if (fd < 0) return NULL;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= ERROR_FILE_LIMIT)
        data = malloc(ERROR_FILE_LIMIT + 1);
    for (ssize_t n = 1; data && n > 0 && *len <= ERROR_FILE_LIMIT; *len += n > 0 ? (size_t)n : 0)
        n = read(fd, data + *len, ERROR_FILE_LIMIT + 1 - *len);
    close(fd);
    if (*len > 0 && *len <= ERROR_FILE_LIMIT) return data;
    free(data);
    return NULL;
}

/* The value of "message" in the object that comes next; an object there is searched again, once. */
static bool find_message(struct msi_json *in, bool nested, struct msi_json_text *message) {
    struct msi_json_text key;
    bool found = false;
    if (!msi_json_object(in)) return false;
    while (msi_json_key(in, &key)) {
        enum msi_json_kind kind = msi_json_peek(in);
        bool wanted = !found && msi_json_is(key, "message");
        if (wanted && kind == MSI_JSON_STRING)
            found = msi_json_string(in, message);
        else if (wanted && kind == MSI_JSON_OBJECT && !nested)
            found = find_message(in, true, message);
        else
            msi_json_skip(in);
    }
    return found;
}

void error_file_read(const char *path, char *text, size_t size) {
    struct msi_json_text message;
    size_t len;
    char *data = read_whole(path, &len);
    text[0] = '\0';
    if (!data) return;
    struct msi_json in = msi_json_of(data, len);
    bool found = find_message(&in, false, &message);
    if (msi_json_end(&in) && found) msi_json_copy(message, text, size);
    len = strlen(text);
    while (len > 0 && text[len - 1] == '\n') text[--len] = '\0';
    text_clean(text, true);
    free(data);
}
