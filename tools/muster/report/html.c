/* html.c - writes the HTML page: report/web/page.html with the style sheet, the scripts and the data. */
#include "report/report.h"

#include "base/json.h"

#include <string.h>

/* The files of report/web/, which the build embeds. */
extern const char report_page_html[], report_page_css[], report_base_js[], report_data_js[], report_head_js[],
    report_tables_js[], report_chart_js[], report_waits_js[], report_draw_js[], report_timeline_js[],
    report_start_js[];

void report_write_base64(const uint8_t *data, size_t len, FILE *to) {
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

/* In JSON a "<" occurs only within strings, where it may be escaped. */
void report_write_json(const struct msi_buf *json, FILE *to) {
    if (json->failed) report_no_memory();
    const char *at = (const char *)json->data, *end = at + json->len;
    while (at < end) {
        const char *bracket = memchr(at, '<', (size_t)(end - at)), *stop = bracket ? bracket : end;
        fwrite(at, 1, (size_t)(stop - at), to);
        if (bracket) fputs("\\u003c", to);
        at = bracket ? bracket + 1 : end;
    }
}

static void put_scripts(FILE *to) {
    const char *const files[] = {report_base_js,   report_data_js,     report_head_js,
                                 report_tables_js, report_chart_js,    report_waits_js,
                                 report_draw_js,   report_timeline_js, report_start_js};
    fputs("<script>\n\"use strict\";\n", to);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) fputs(files[i], to);
    fputs("</script>\n", to);
}

void report_write_html(const struct report_job *job, const struct msi_buf *summary, FILE *to) {
    static const char style[] = "@STYLE@", data[] = "@DATA@";
    const char *html = report_page_html, *style_at = strstr(html, style), *data_at = strstr(html, data);
    fwrite(html, 1, (size_t)(style_at - html), to);
    fputs(report_page_css, to);
    fwrite(style_at + strlen(style), 1, (size_t)(data_at - style_at) - strlen(style), to);
    fputs("<script type=\"application/json\" id=\"summary\">", to);
    report_write_json(summary, to);
    fputs("</script>\n", to);
    report_write_overview(job, to);
    put_scripts(to); /* before the events, so that the browser shows the page while it still loads them */
    report_write_lanes(job, to);
    fputs(data_at + strlen(data), to);
}
