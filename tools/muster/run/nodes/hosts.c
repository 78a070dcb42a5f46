/* hosts.c - reads lists of hosts; see hosts.h. */
#include "run/nodes/hosts.h"

#include "base/error.h"
#include "cli/options.h"
#include "cli/text.h"
#include "os/clock.h"
#include "os/file.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { FILE_SECONDS = 10 };

struct reader {
    struct hosts hosts;
    const char *file; /* NULL: the command line */
    int line;
    char word[HOSTS_LINE_MAX]; /* the entry that is being read, for messages */
};

__attribute__((format(printf, 2, 3))) static mst_status refuse(const struct reader *r, const char *format,
                                                               ...) {
    char where[32] = "", text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (r->line > 0) snprintf(where, sizeof where, ":%d", r->line);
    return msi_fail(MST_ERR_INVALID, NULL, "%s%s: %s", r->file ? r->file : "--hosts", where, text);
}

/* "'entry' is wrong"; the entry is shortened and made harmless to a terminal. */
static mst_status refuse_word(const struct reader *r, const char *what) {
    enum { MOST = 60 };
    char text[MOST + 4];
    snprintf(text, sizeof text, "%.*s%s", MOST, r->word, strlen(r->word) > MOST ? "..." : "");
    text_clean(text, false);
    return refuse(r, "'%s' %s", text, what);
}

/* Letters, digits and these characters; not empty. */
static bool consists_of(const char *text, const char *extra) {
    const char *at = text;
    while (*at && (isalnum((unsigned char)*at) || strchr(extra, *at))) at++;
    return at > text && !*at;
}

static bool is_ipv6(const char *text) {
    char address[INET6_ADDRSTRLEN + 1];
    struct in6_addr parsed;
    size_t len = strcspn(text, "%");
    if (len >= sizeof address || (text[len] && !consists_of(text + len + 1, "._-"))) return false;
    memcpy(address, text, len);
    address[len] = 0;
    return inet_pton(AF_INET6, address, &parsed) == 1;
}

static mst_status read_number(const struct reader *r, const char *digits, int *n) {
    char wrong[96];
    long long value;
    snprintf(wrong, sizeof wrong, "has no number of ranks from 1 to %d", HOSTS_RANKS_MAX);
    if (!consists_of(digits, "") || !opt_read_number(digits, 1, HOSTS_RANKS_MAX, &value))
        return refuse_word(r, wrong);
    *n = (int)value;
    return MST_OK;
}

/* Splits "host", "host:N", "[ipv6]", "[ipv6]:N" or "ipv6" in place; *count is NULL without a number. */
static mst_status split_host(const struct reader *r, char **host, char **count) {
    char *text = *host, *colon = strchr(text, ':'), *close = strchr(text, ']');
    *count = NULL;
    if (text[0] == '[') {
        if (!close) return refuse_word(r, "has no ']'");
        *close++ = 0;
        *host = text + 1;
        if (!is_ipv6(*host)) return refuse_word(r, "has no IPv6 address in its brackets");
        if (*close && *close != ':') return refuse_word(r, "has something other than ':N' after ']'");
        if (*close) *count = close + 1;
        return MST_OK;
    }
    if (colon && strchr(colon + 1, ':')) {
        if (is_ipv6(text)) return MST_OK;
        return refuse_word(r, "is neither host:N nor an IPv6 address; a number of ranks needs [address]:N");
    }
    if (colon) {
        *colon = 0;
        *count = colon + 1;
    }
    if (!text[0]) return refuse_word(r, "has no host name");
    if (text[0] == '-' || !consists_of(text, "._-")) return refuse_word(r, "is not a host name or address");
    return MST_OK;
}

/* Splits r->word, [user@]host[:N]; name gets [user@]host without brackets. */
static mst_status split_word(const struct reader *r, char name[HOSTS_NAME_MAX], int *ranks) {
    char copy[HOSTS_LINE_MAX], *host = copy, *count;
    strcpy(copy, r->word);
    char *sign = strchr(copy, '@');
    if (sign) {
        *sign = 0;
        host = sign + 1;
        if (copy[0] == '-' || !consists_of(copy, "._-+"))
            return refuse_word(r, "does not begin with a user name");
    }
    mst_status st = split_host(r, &host, &count);
    if (st != MST_OK) return st;
    if (snprintf(name, HOSTS_NAME_MAX, "%s%s%s", sign ? copy : "", sign ? "@" : "", host) >= HOSTS_NAME_MAX)
        return refuse_word(r, "is too long for a host name");
    return count ? read_number(r, count, ranks) : MST_OK;
}

static mst_status append(struct reader *r, const char *name, struct host **added) {
    struct hosts *h = &r->hosts;
    if (h->n >= HOSTS_MAX) return refuse(r, "there are more than %d hosts", HOSTS_MAX);
    struct host *grown = realloc(h->list, sizeof grown[0] * ((size_t)h->n + 1));
    if (!grown) return msi_fail_memory();
    h->list = grown;
    *added = &h->list[h->n++];
    **added = (struct host){.ranks = 0};
    strcpy((*added)->name, name);
    return MST_OK;
}

/* ranks 0: no number was given. */
static mst_status add(struct reader *r, const char *name, int ranks) {
    struct host *host = NULL;
    mst_status st = MST_OK;
    for (int i = 0; i < r->hosts.n && !host; i++)
        if (!strcasecmp(r->hosts.list[i].name, name)) host = &r->hosts.list[i];
    if (!host) st = append(r, name, &host);
    if (st != MST_OK) return st;
    if (host->ranks + host->open + (ranks > 0 ? ranks : 1) > HOSTS_RANKS_MAX)
        return refuse(r, "host %s has more than %d ranks", name, HOSTS_RANKS_MAX);
    host->ranks += ranks;
    host->open += ranks == 0;
    return MST_OK;
}

static mst_status finish(struct reader *r, mst_status st, struct hosts *hosts) {
    r->line = 0;
    if (st == MST_OK && r->hosts.n == 0) st = refuse(r, "it names no host");
    if (st == MST_OK)
        *hosts = r->hosts;
    else
        hosts_free(&r->hosts);
    return st;
}

mst_status hosts_read_list(const char *text, struct hosts *hosts) {
    struct reader r = {0};
    mst_status st = MST_OK;
    for (const char *at = text; st == MST_OK && *text; at++) {
        char name[HOSTS_NAME_MAX];
        int ranks = 0;
        size_t len = strcspn(at, ",");
        msi_str_copy(len > 0 ? msi_str(at, len) : msi_cstr(text), r.word, sizeof r.word);
        if (len == 0)
            st = refuse_word(&r, "has an empty entry between commas");
        else if (len >= sizeof r.word)
            st = refuse_word(&r, "is too long for a host name");
        else
            st = split_word(&r, name, &ranks);
        if (st == MST_OK) st = add(&r, name, ranks);
        at += len;
        if (!*at) break;
    }
    return finish(&r, st, hosts);
}

/* Reads what follows the host: slots=N, and max_slots=M, which only limits N. */
static mst_status read_settings(struct reader *r, char **rest, const char *name, int *ranks) {
    int most = HOSTS_RANKS_MAX;
    mst_status st = MST_OK;
    for (char *word; st == MST_OK && (word = strtok_r(NULL, " \t", rest));) {
        strcpy(r->word, word);
        if (!strncasecmp(word, "max_slots=", 10) || !strncasecmp(word, "max-slots=", 10))
            st = read_number(r, word + 10, &most);
        else if (strncasecmp(word, "slots=", 6) != 0)
            st = refuse_word(r, "is not valid; a line is host, host:N or host slots=N");
        else if (*ranks > 0)
            st = refuse_word(r, "is a second number of ranks on one line");
        else
            st = read_number(r, word + 6, ranks);
    }
    if (st == MST_OK && *ranks > most)
        return refuse(r, "%d ranks on %s are more than max_slots=%d", *ranks, name, most);
    return st;
}

static mst_status read_line(struct reader *r, const char *text, size_t len) {
    char line[HOSTS_LINE_MAX], name[HOSTS_NAME_MAX], *rest;
    int ranks = 0;
    if (len > 0 && text[len - 1] == '\r') len--;
    if (len >= HOSTS_LINE_MAX) return refuse(r, "the line is longer than %d bytes", HOSTS_LINE_MAX - 1);
    if (memchr(text, 0, len)) return refuse(r, "the line has a zero byte; this is not a text file");
    memcpy(line, text, len);
    line[len] = 0;
    line[strcspn(line, "#")] = 0;
    const char *word = strtok_r(line, " \t", &rest);
    if (!word) return MST_OK;
    strcpy(r->word, word);
    if (strchr(word, ',')) return refuse_word(r, "has a comma; a line names one host");
    mst_status st = split_word(r, name, &ranks);
    if (st == MST_OK) st = read_settings(r, &rest, name, &ranks);
    return st == MST_OK ? add(r, name, ranks) : st;
}

mst_status hosts_read_lines(const char *file, const char *text, size_t len, struct hosts *hosts) {
    struct reader r = {.file = file};
    mst_status st = MST_OK;
    struct msi_str rest = msi_str(text, len), line;
    while (st == MST_OK && msi_str_line(&rest, &line)) {
        r.line++;
        st = read_line(&r, line.p, line.n);
    }
    return finish(&r, st, hosts);
}

/* With O_NONBLOCK and a deadline, because a pipe may have no writer or never end. */
mst_status hosts_read_file(const char *path, struct hosts *hosts) {
    struct msi_buf text = {0};
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    int error = fd < 0 ? errno : msi_read_all(fd, HOSTS_FILE_MAX, msi_deadline(FILE_SECONDS * 1000), &text);
    mst_status st;
    if (error == ETIMEDOUT)
        st = msi_fail(MST_ERR_TIMEOUT, NULL, "%s: it did not end within %d s", path, FILE_SECONDS);
    else if (error == EFBIG)
        st = msi_fail(MST_ERR_LIMIT, NULL, "%s: it is longer than %d bytes", path, HOSTS_FILE_MAX);
    else if (error)
        st = msi_fail(MST_ERR_SYSTEM, NULL, "%s: cannot %s it: %s", path, fd < 0 ? "open" : "read",
                      strerror(error));
    else
        st = hosts_read_lines(path, msi_buf_text(&text), text.len, hosts);
    if (fd >= 0) close(fd);
    msi_buf_free(&text);
    return st;
}

void hosts_free(struct hosts *hosts) {
    free(hosts->list);
    *hosts = (struct hosts){0};
}

mst_status hosts_nproc(const struct host *host, const char *nproc, char text[HOSTS_NPROC_MAX]) {
    long long each = 0;
    bool known = host->open == 0 || opt_read_number(nproc, 1, HOSTS_RANKS_MAX, &each);
    if (!known && host->open == 1 && host->ranks == 0 && strlen(nproc) < HOSTS_NPROC_MAX) {
        strcpy(text, nproc);
        return MST_OK;
    }
    if (!known)
        return msi_fail(MST_ERR_INVALID, NULL,
                        "host %s is named more than once, and '-n %.20s' cannot be added up", host->name,
                        nproc);
    long long sum = host->ranks + host->open * each;
    if (sum > HOSTS_RANKS_MAX)
        return msi_fail(MST_ERR_INVALID, NULL, "host %s has %lld ranks; the limit is %d", host->name, sum,
                        HOSTS_RANKS_MAX);
    snprintf(text, HOSTS_NPROC_MAX, "%lld", sum);
    return MST_OK;
}
