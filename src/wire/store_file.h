/*
 * store_file.h - the records of the file store, an append-only log. Each record is a u32 length and a name, a
 * u32 length and a value. The first byte of the name is the kind of change. Set and delete are as in
 * PyTorch's FileStore, which skips the others.
 */
#ifndef MSI_WIRE_STORE_FILE_H
#define MSI_WIRE_STORE_FILE_H

#include "base/buf.h"

enum msi_file_event {
    MSI_FILE_SET = '/',           /* "/key" -> value */
    MSI_FILE_DELETE = '-',        /* "-/key" */
    MSI_FILE_APPEND = '&',        /* "&/key" -> more */
    MSI_FILE_PUSH = '+',          /* "+/key" -> entry of a queue */
    MSI_FILE_POP = '~',           /* "~/key" */
    MSI_FILE_ARRIVE = '=',        /* "=/key": one more at a barrier */
    MSI_FILE_ON_DISCONNECT = '!', /* "!slot" -> u64 length, key, value; empty: removed */
    MSI_FILE_OTHER = 0,           /* unknown */
};

struct msi_file_record {
    enum msi_file_event event;
    struct msi_str key; /* without the kind */
    struct msi_str value;
};

enum msi_file_result { MSI_FILE_OK, MSI_FILE_TORN, MSI_FILE_GARBAGE };

/* Reads the record at p and its length. TORN: incomplete. GARBAGE: not a store's file. */
enum msi_file_result msi_file_record_read(const uint8_t *p, size_t n, size_t max_key, size_t max_value,
                                          struct msi_file_record *record, size_t *length);

void msi_file_record_write(struct msi_buf *out, enum msi_file_event event, struct msi_str key,
                           struct msi_str value);

#endif
