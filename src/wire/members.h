/*
 * members.h - records that ranks write into the store to find each other: their processes, locations and
 * events. Pure codecs, which check everything that they read.
 *
 *   members   16 bytes a rank, in order of arrival: u32 rank, u32 pid, u64 location
 *   locations  one entry for each: u64 location, u64 host, string name, string address
 *   events   one line for each:  "D 3\n" rank 3 died;  "L 3\n" it left;  "F 3 17 5 text\n" it failed to join
 *            with status 17, blames rank 5 (-1: no rank), with a message
 */
#ifndef MSI_WIRE_MEMBERS_H
#define MSI_WIRE_MEMBERS_H

#include "base/buf.h"

#include <muster/status.h>

enum { MSI_EVENT_TEXT_MAX = 600 };

struct msi_member_entry {
    uint32_t rank, pid;
    uint64_t location;
};

struct msi_location_entry {
    uint64_t location, host;
    struct msi_str name, address;
};

void msi_members_write(struct msi_buf *out, const struct msi_member_entry *entry);
/* Removes the next entry from text; false at its end or if it is malformed. */
bool msi_members_next(struct msi_str *text, struct msi_member_entry *entry);

void msi_location_write(struct msi_buf *out, const struct msi_location_entry *entry);
bool msi_location_next(struct msi_str *text, struct msi_location_entry *entry);

/* The third word of a D event if the host of the rank does not answer. */
#define MSI_EVENT_SILENT "silent"

struct msi_event {
    char kind; /* 'D', 'L' or 'F' */
    int rank;
    mst_status status; /* F */
    int culprit;       /* F */
    struct msi_str text;
    bool silent; /* D: its host does not answer */
};

void msi_event_write(struct msi_buf *out, const struct msi_event *event);
/* Removes the next well-formed event from text and skips others; false at its end. */
bool msi_event_next(struct msi_str *text, struct msi_event *event);

#endif
