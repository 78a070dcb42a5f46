/*
 * store_file.h - the records of the file store. The file is a log that only grows: each record is a u32
 * length and a name, a u32 length and a value. The first byte of a name says what happened; set and delete
 * are as PyTorch's FileStore writes them, which passes over the others.
 */
#ifndef MSI_WIRE_STORE_FILE_H
#define MSI_WIRE_STORE_FILE_H

#include "base/buf.h"

enum msi_file_event {
    MSI_FILE_SET = '/',    /* "/key" -> value */
    MSI_FILE_DELETE = '-', /* "-/key" */
    MSI_FILE_APPEND = '&', /* "&/key" -> more */
    MSI_FILE_PUSH = '+',   /* "+/key" -> entry of a queue */
    MSI_FILE_POP = '~',    /* "~/key" */
    MSI_FILE_ARRIVE = '=', /* "=/key": one more at a barrier */
    MSI_FILE_WILL = '!',   /* "!slot" -> u64 length, key, value; empty: taken back */
    MSI_FILE_OTHER = 0,    /* somebody else's */
};

struct msi_file_record {
    enum msi_file_event event;
    struct msi_str key; /* without its marks */
    struct msi_str value;
};

enum msi_file_result { MSI_FILE_OK, MSI_FILE_TORN, MSI_FILE_GARBAGE };

/*
 * Reads the record at p and its length. TORN: the bytes end before it does. GARBAGE: longer than a record may
 * be, so this is no store's file.
 */
enum msi_file_result msi_file_record_read(const uint8_t *p, size_t n, size_t max_key, size_t max_value,
                                          struct msi_file_record *record, size_t *length);

void msi_file_record_write(struct msi_buf *out, enum msi_file_event event, struct msi_str key,
                           struct msi_str value);

#endif
