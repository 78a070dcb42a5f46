/* fuzz_store_file.c - the file store's records. What is read as one of ours must give the same bytes
 * again. */
#include "wire/store_file.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_KEY = 64, MAX_VALUE = 512, MARKS = 2 };

static void check_same_bytes(const struct msi_file_record *record, const uint8_t *p, size_t length) {
    struct msi_buf again = {0};
    msi_file_record_write(&again, record->event, record->key, record->value);
    assert(again.len == length && !memcmp(again.data, p, length));
    msi_buf_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    for (size_t at = 0, length = 0; at < size; at += length) {
        struct msi_file_record record;
        enum msi_file_result got =
            msi_file_record_read(data + at, size - at, MAX_KEY, MAX_VALUE, &record, &length);
        if (got == MSI_FILE_TORN) {
            assert(size - at < 8 + MAX_KEY + MARKS + MAX_VALUE); /* anything longer is whole, or no record */
            break;
        }
        if (got == MSI_FILE_GARBAGE) break;
        assert(length >= 8 && length <= size - at);
        assert(record.key.n <= MAX_KEY + MARKS && record.value.n <= MAX_VALUE);
        if (record.event != MSI_FILE_OTHER) check_same_bytes(&record, data + at, length);
    }
    return 0;
}
