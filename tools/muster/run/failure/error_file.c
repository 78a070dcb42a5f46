/* error_file.c - reads a rank's error file. See failure.h. Its contents are not trusted. */
#include "run/failure/failure.h"

#include "base/json.h"
#include "cli/text.h"
#include "os/file.h"

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
    struct msi_buf data = {0};
    text[0] = '\0';
    if (msi_file_read(path, ERROR_FILE_LIMIT, &data) == 0 && data.len > 0) {
        struct msi_json in = msi_json_of((const char *)data.data, data.len);
        bool found = find_message(&in, false, &message);
        if (msi_json_end(&in) && found) msi_json_copy(message, text, size);
    }
    msi_buf_free(&data);
    size_t len = strlen(text);
    while (len > 0 && text[len - 1] == '\n') text[--len] = '\0';
    text_clean(text, true);
}
