/* members.c - records that ranks write into the store to find each other. See members.h. */
#include "wire/members.h"
#include "wire/cursor.h"

#include <stdio.h>

void msi_members_write(struct msi_buf *out, const struct msi_member_entry *entry) {
    msi_put_u32(out, entry->rank);
    msi_put_u32(out, entry->pid);
    msi_put_u64(out, entry->location);
}

static void step(struct msi_str *text, const struct msi_reader *r) {
    *text = msi_str(r->p, r->left);
}

bool msi_members_next(struct msi_str *text, struct msi_member_entry *entry) {
    struct msi_reader r = msi_reader(text->p, text->n);
    *entry = (struct msi_member_entry){msi_read_u32(&r), 0, 0};
    entry->pid = msi_read_u32(&r);
    entry->location = msi_read_u64(&r);
    if (!r.bad) step(text, &r);
    return !r.bad;
}

void msi_location_write(struct msi_buf *out, const struct msi_location_entry *entry) {
    msi_put_u64(out, entry->location);
    msi_put_u64(out, entry->host);
    msi_put_str(out, entry->name);
    msi_put_str(out, entry->address);
}

bool msi_location_next(struct msi_str *text, struct msi_location_entry *entry) {
    struct msi_reader r = msi_reader(text->p, text->n);
    entry->location = msi_read_u64(&r);
    entry->host = msi_read_u64(&r);
    entry->name = msi_read_str(&r);
    entry->address = msi_read_str(&r);
    if (!r.bad) step(text, &r);
    return !r.bad;
}

void msi_event_write(struct msi_buf *out, const struct msi_event *event) {
    if (event->kind != 'F') {
        msi_buf_add_format(out, "%c %d\n", event->kind, event->rank);
        return;
    }
    int n = event->text.n > MSI_EVENT_TEXT_MAX ? MSI_EVENT_TEXT_MAX : (int)event->text.n;
    size_t start = out->len;
    msi_buf_add_format(out, "F %d %d %d %.*s", event->rank, (int)event->status, event->culprit, n,
                       event->text.p);
    for (size_t i = start; i < out->len; i++)
        if (out->data[i] == '\n') out->data[i] = ' ';
    msi_buf_add_u8(out, '\n');
}

static bool parse_event(struct msi_str line, struct msi_event *event) {
    char head[64];
    int status = 0, used = 0;
    msi_str_copy(line, head, sizeof head);
    *event = (struct msi_event){.culprit = -1};
    if (line.n < 3 || !strchr("DLF", line.p[0]) || line.p[1] != ' ') return false;
    event->kind = line.p[0];
    event->silent = strstr(head, MSI_EVENT_SILENT) != NULL;
    if (event->kind != 'F') return sscanf(head + 2, "%d", &event->rank) == 1 && event->rank >= 0;
    if (sscanf(head + 2, "%d %d %d %n", &event->rank, &status, &event->culprit, &used) != 3 || used == 0)
        return false;
    if (event->rank < 0 || status <= 0 || status >= MST_STATUS_COUNT) return false;
    event->status = (mst_status)status;
    size_t skip = 2 + (size_t)used < line.n ? 2 + (size_t)used : line.n;
    event->text = msi_str(line.p + skip, line.n - skip);
    return true;
}

bool msi_event_next(struct msi_str *text, struct msi_event *event) {
    struct msi_str line;
    while (msi_str_line(text, &line))
        if (parse_event(line, event)) return true;
    return false;
}
