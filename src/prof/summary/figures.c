/* figures.c - see figures.h. */
#include "prof/summary/figures.h"
#include "base/json/parts.h"

#include <stdio.h>

double msi_gbps(uint64_t bytes, uint64_t ns) {
    return 8.0 * (double)bytes / (double)(ns ? ns : 1);
}

const char *msi_size_text(uint64_t bytes, char text[MSI_SIZE_TEXT]) {
    static const char units[][3] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
    double size = (double)bytes;
    int unit = 0;
    /* A value that rounds to 1024.00 is 1.0 of the next unit. */
    for (; size >= 1023.995 && unit < 6; unit++) size /= 1024;
    if (!bytes) return strcpy(text, "0 B");
    int n = snprintf(text, MSI_SIZE_TEXT, "%.2f", size);
    if (text[n - 1] == '0') n--;
    snprintf(text + n, MSI_SIZE_TEXT - (size_t)n, " %s", units[unit]);
    return text;
}

/* The length of the printable character at at; 0: not printable, as U+0080 to U+009F. */
static int printable(const char *at, const char *end) {
    unsigned char c = (unsigned char)*at;
    if (c < 0x80) return c >= ' ' && c != 0x7f;
    int n = msi_utf8_length(at, end);
    return n < 0 || (c == 0xc2 && (unsigned char)at[1] < 0xa0) ? 0 : n;
}

void msi_add_printable(struct msi_buf *to, const char *text) {
    const char *end = text + strlen(text);
    while (text < end) {
        int n = printable(text, end);
        if (n)
            msi_buf_add(to, text, (size_t)n);
        else if (*text == '\n' || *text == '\t' || *text == '\r')
            msi_buf_add_format(to, "\\%c", *text == '\n' ? 'n' : *text == '\t' ? 't' : 'r');
        else
            msi_buf_add_format(to, "\\x%02x", (unsigned)(unsigned char)*text);
        text += n ? n : 1;
    }
}

void msi_add_name(struct msi_buf *to, const char *name, const char *function) {
    msi_add_printable(to, name);
    if (function) msi_buf_add_format(to, " | [Caller Func: %s]", function);
}

void msi_add_call_line(struct msi_buf *to, const struct msi_record *record, const char *function,
                       uint64_t ns) {
    char size[MSI_SIZE_TEXT];
    double time = (double)ns / 1e6, algbw = msi_gbps(record->bytes, ns);
    double busbw = algbw * msi_bus_factor((enum msi_share)record->share, record->group->size);
    msi_buf_add_format(to, "comm op: ");
    msi_add_name(to, record->name, function);
    msi_buf_add_format(to, " | time (ms): %.*f | msg size: %s | algbw (Gbps): %.*f | busbw (Gbps): %.*f",
                       msi_decimals(time), time, msi_size_text(record->bytes, size), msi_decimals(algbw),
                       algbw, msi_decimals(busbw), busbw);
}
