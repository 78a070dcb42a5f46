/* html.c - puts the page together: report/web/page.html with what belongs in its places. */
#include "report/report.h"

#include "base/json.h"

#include <string.h>

/* The files of page/, embedded when the tool is built. */
extern const char page_page_html[], page_page_css[], page_base_js[], page_data_js[], page_head_js[],
    page_tables_js[], page_chart_js[], page_waits_js[], page_draw_js[], page_timeline_js[], page_start_js[];

void page_put_base64(const uint8_t *data, size_t len, FILE *to) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char out[4096];
    size_t n = 0;

    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        uint32_t bits = (uint32_t)data[i] << 16 | (left > 1 ? (uint32_t)data[i + 1] << 8 : 0) |
                        (left > 2 ? data[i + 2] : 0);
        out[n++] = digits[bits >> 18];
        out[n++] = digits[bits >> 12 & 63];
        out[n++] = left > 1 ? digits[bits >> 6 & 63] : '=';
        out[n++] = left > 2 ? digits[bits & 63] : '=';
        if (n == sizeof out || left <= 3) {
            fwrite(out, 1, n, to);
            n = 0;
        }
    }
}

/* In JSON a "<" can only be within a string, where it may be written otherwise. */
void page_put_json(const struct msi_buf *json, FILE *to) {
    const char *at = (const char *)json->data, *end = at + json->len;

    while (at < end) {
        const char *bracket = memchr(at, '<', (size_t)(end - at)), *stop = bracket ? bracket : end;
        fwrite(at, 1, (size_t)(stop - at), to);
        if (bracket != NULL) fputs("\\u003c", to);
        at = bracket ? bracket + 1 : end;
    }
}

static void put_scripts(FILE *to) {
    const char *const files[] = {page_base_js,  page_data_js, page_head_js,     page_tables_js, page_chart_js,
                                 page_waits_js, page_draw_js, page_timeline_js, page_start_js};

    fputs("<script>\n\"use strict\";\n", to);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) fputs(files[i], to);
    fputs("</script>\n", to);
}

static void put_summary(const struct msi_buf *summary, FILE *to) {
    fputs("<script type=\"application/json\" id=\"summary\">", to);
    page_put_json(summary, to);
    fputs("</script>\n", to);
}

/* The scripts come before the events, so that all but the details of the timeline is there while those are still being read. */
static void put_data(struct page_job *job, const struct msi_buf *summary, FILE *to) {
    put_summary(summary, to);
    page_overview(job, to);
    put_scripts(to);
    page_lanes(job, to);
}

void page_write(struct page_job *job, const struct msi_buf *summary, FILE *to) {
    static const char style[] = "@STYLE@", data[] = "@DATA@";
    const char *html = page_page_html, *style_at = strstr(html, style), *data_at = strstr(html, data);

    fwrite(html, 1, (size_t)(style_at - html), to);
    fputs(page_page_css, to);
    fwrite(style_at + strlen(style), 1, (size_t)(data_at - style_at) - strlen(style), to);
    put_data(job, summary, to);
    fputs(data_at + strlen(data), to);
}
