/*
 * members.h - what ranks write into the store to find each other: who they are, where they sit, and what
 * became of them. Pure codecs; everything that comes back from the store is checked.
 *
 *   members   16 bytes a rank, in order of arrival: u32 rank, u32 pid, u64 place
 *   places   one entry for each place: u64 place, u64 host, string name, string address
 *   events   one line for each:  "D 3\n" rank 3 died;  "L 3\n" it left;  "F 3 17 5 text\n" it gave up joining
 *            with status 17, blames rank 5 (-1: nobody), and says text
 */
#ifndef MSI_WIRE_MEMBERS_H
#define MSI_WIRE_MEMBERS_H

#include "base/buf.h"

#include <muster/status.h>

enum { MSI_ROSTER_ENTRY = 16, MSI_EVENT_TEXT_MAX = 600 };

struct msi_member_entry {
    uint32_t rank, pid;
    uint64_t place;
};

struct msi_place_entry {
    uint64_t place, host;
    struct msi_str name, address;
};

void msi_members_write(struct msi_buf *out, const struct msi_member_entry *entry);
/* Takes the next entry off text; false at its end or if it is malformed. */
bool msi_members_next(struct msi_str *text, struct msi_member_entry *entry);

void msi_place_write(struct msi_buf *out, const struct msi_place_entry *entry);
bool msi_place_next(struct msi_str *text, struct msi_place_entry *entry);

struct msi_event {
    char kind; /* 'D', 'L' or 'F' */
    int rank;
    mst_status status; /* F */
    int culprit;       /* F */
    struct msi_str text;
};

void msi_event_write(struct msi_buf *out, const struct msi_event *event);
/* Takes the next well-formed event off text and passes over others; false at its end. */
bool msi_event_next(struct msi_str *text, struct msi_event *event);

#endif
