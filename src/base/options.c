/* options.c - option structs across the ABI. See options.h. */
#include "base/options.h"
#include "base/error.h"

#include <muster/types.h>
#include <muster/version.h>
#include <stdbool.h>
#include <string.h>

/* Every option struct begins with this. */
struct head {
    MST_OPTIONS_HEAD
};

mst_status msi_options_copy(void *known, size_t size, const void *given) {
    memset(known, 0, size);
    if (!given) return MST_OK;
    const struct mst_options_must_be_named *positional;
    size_t given_size;
    memcpy(&positional, given, sizeof positional);
    memcpy(&given_size, (const char *)given + offsetof(struct head, size), sizeof given_size);
    if (positional == MST_ARGUMENT_IS_MISSING)
        return msi_fail(MST_ERR_INVALID, "give all arguments without a name before the options",
                        "the call has too few positional arguments");
    if (positional)
        return msi_fail(MST_ERR_INVALID, "give options by name: .op = MST_AVG, .group = group",
                        "the call has too many positional arguments");
    if (given_size < offsetof(struct head, site) || given_size > 4096)
        return msi_fail(MST_ERR_INVALID, "set .size to the size of the struct, or use the macro that does",
                        "the options have size %zu", given_size);
    const unsigned char *bytes = given;
    for (size_t i = size; i < given_size; i++)
        if (bytes[i])
            return msi_fail(MST_ERR_INVALID, "update libmuster",
                            "the options set a field that libmuster " MST_VERSION_STRING " does not know");
    memcpy(known, given, given_size < size ? given_size : size);
    return MST_OK;
}

mst_status msi_options_begin(const char *operation, void *known, size_t size, const void *given) {
    struct head head = {.size = 0};
    size_t given_size = 0;
    if (given) memcpy(&given_size, (const char *)given + offsetof(struct head, size), sizeof given_size);
    if (given_size >= sizeof head) memcpy(&head, given, sizeof head);
    msi_call_begin(operation, &head.site, msi_call_get_rank());
    return msi_options_copy(known, size, given);
}

mst_status msi_check_wait_timeout(int timeout_ms) {
    return timeout_ms == MST_NOW ? MST_OK : msi_check_timeout(timeout_ms);
}

mst_status msi_check_timeout(int timeout_ms) {
    if (timeout_ms >= 0) return MST_OK;
    if (timeout_ms == MST_NOW)
        return msi_fail(MST_ERR_INVALID,
                        "start the operation with .work, and wait for that with .timeout_ms = MST_NOW",
                        "this call cannot be done at once (.timeout_ms is MST_NOW)");
    return msi_fail(MST_ERR_INVALID, "give milliseconds, or leave it out for the default",
                    ".timeout_ms is %d", timeout_ms);
}

/* The end of a character or string literal that begins at text. */
static const char *skip_literal(const char *text) {
    char quote = *text++;
    while (*text && *text != quote) text += text[0] == '\\' && text[1] ? 2 : 1;
    return *text ? text + 1 : text;
}

int mst_count_positional(const char *text) {
    int depth = 0, n = 0;
    bool begins = true; /* at the beginning of an argument */
    for (; *text; text++) {
        if (*text == ' ') continue;
        if (begins && *text == '.') return n;
        if (begins) n++;
        begins = depth == 0 && *text == ',';
        if (*text == '"' || *text == '\'') {
            text = skip_literal(text) - 1;
        } else if (strchr("([{", *text)) {
            depth++;
        } else if (strchr(")]}", *text)) {
            depth--;
        }
    }
    return n;
}
