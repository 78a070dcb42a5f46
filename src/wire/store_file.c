/* store_file.c - records of the file store. See store_file.h. */
#include "wire/store_file.h"
#include "wire/cursor.h"

enum { MARKS = 2 }; /* most bytes of a name before the key */

static struct msi_str read_field(struct msi_reader *r, size_t most, bool *garbage) {
    size_t n = msi_read_u32(r);
    if (!r->bad && n > most) *garbage = true;
    const uint8_t *p = *garbage ? NULL : msi_read_bytes(r, n);
    return msi_str(p, p ? n : 0);
}

static void split(struct msi_str name, struct msi_file_record *record) {
    static const char with_slash[] = {MSI_FILE_DELETE, MSI_FILE_APPEND, MSI_FILE_PUSH, MSI_FILE_POP,
                                      MSI_FILE_ARRIVE};
    size_t marks = 0;
    record->event = MSI_FILE_OTHER;
    if (name.n >= 1 && (name.p[0] == MSI_FILE_SET || name.p[0] == MSI_FILE_ON_DISCONNECT)) marks = 1;
    if (name.n >= 2 && name.p[1] == '/' && memchr(with_slash, name.p[0], sizeof with_slash)) marks = 2;
    if (marks) record->event = (enum msi_file_event)name.p[0];
    record->key = msi_str(name.p + marks, name.n - marks);
}

enum msi_file_result msi_file_record_read(const uint8_t *p, size_t n, size_t max_key, size_t max_value,
                                          struct msi_file_record *record, size_t *length) {
    struct msi_reader r = msi_reader(p, n);
    bool garbage = false;
    struct msi_str name = read_field(&r, max_key + MARKS, &garbage);
    if (!garbage && !r.bad) record->value = read_field(&r, max_value, &garbage);
    if (!r.bad && name.n + record->value.n == 0) garbage = true; /* a hole in the file, for example */
    if (garbage) return MSI_FILE_GARBAGE;
    if (r.bad) return MSI_FILE_TORN;
    split(name, record);
    *length = n - r.left;
    return MSI_FILE_OK;
}

void msi_file_record_write(struct msi_buf *out, enum msi_file_event event, struct msi_str key,
                           struct msi_str value) {
    size_t marks = event == MSI_FILE_SET || event == MSI_FILE_ON_DISCONNECT ? 1 : 2;
    msi_put_u32(out, (uint32_t)(marks + key.n));
    msi_buf_add_u8(out, (uint8_t)event);
    if (marks == 2) msi_buf_add_u8(out, '/');
    msi_buf_add(out, key.p, key.n);
    msi_put_u32(out, (uint32_t)value.n);
    msi_buf_add(out, value.p, value.n);
}
