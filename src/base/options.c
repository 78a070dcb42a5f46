/* options.c - option structs across the ABI. See options.h. */
#include "base/options.h"
#include "base/error.h"

#include <muster/version.h>
#include <string.h>

mst_status msi_options_copy(void *known, size_t size, const void *given) {
    memset(known, 0, size);
    if (!given) return MST_OK;
    size_t given_size;
    memcpy(&given_size, given, sizeof given_size);
    if (given_size < sizeof given_size || given_size > 4096)
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

/* Every option struct begins with this. */
struct head {
    size_t size;
    mst_site site;
};

mst_status msi_options_begin(const char *operation, void *known, size_t size, const void *given) {
    struct head head;
    msi_call_begin(operation, NULL, msi_call_get_rank());
    mst_status st = msi_options_copy(known, size, given);
    if (st != MST_OK) return st;
    memcpy(&head, known, sizeof head);
    msi_call_begin(operation, &head.site, msi_call_get_rank());
    return MST_OK;
}

mst_status msi_check_timeout(int timeout_ms) {
    if (timeout_ms >= 0) return MST_OK;
    return msi_fail(MST_ERR_INVALID, "give milliseconds, or leave it out for the default",
                    ".timeout_ms is %d", timeout_ms);
}
