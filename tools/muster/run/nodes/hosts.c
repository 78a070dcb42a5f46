/* hosts.c - reads lists of hosts; see hosts.h. */
#include "run/nodes/hosts.h"

#include "base/error.h"
#include "base/str.h"
#include "cli/options.h"
#include "cli/text.h"
#include "os/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

enum { FILE_SECONDS = 10 };

struct reader {
    struct hosts hosts;
    const char *file; /* NULL: the command line */
    int line;
    struct msi_str word; /* the entry that is being read */
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
static mst_status refuse_text(const struct reader *r, struct msi_str s, const char *what) {
    enum { MOST = 60 };
    char text[MOST + 4];
    snprintf(text, sizeof text, "%.*s%s", (int)(s.n > MOST ? MOST : s.n), s.p, s.n > MOST ? "..." : "");
    text_clean(text, false);
    return refuse(r, "'%s' %s", text, what);
}

static mst_status refuse_word(const struct reader *r, const char *what) {
    return refuse_text(r, r->word, what);
}

/* Letters, digits and these characters; not empty. */
static bool consists_of(struct msi_str s, const char *extra) {
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!c || (!plain && !strchr(extra, c))) return false;
    }
    return s.n > 0;
}

static bool is_ipv6(struct msi_str s) {
    char text[INET6_ADDRSTRLEN + 1];
    struct in6_addr address;
    const char *zone = memchr(s.p, '%', s.n);
    size_t len = zone ? (size_t)(zone - s.p) : s.n;
    if (len >= sizeof text) return false;
    memcpy(text, s.p, len);
    text[len] = 0;
    if (zone && !consists_of(msi_str(zone + 1, s.n - len - 1), "._-")) return false;
    return inet_pton(AF_INET6, text, &address) == 1;
}

static mst_status read_number(const struct reader *r, struct msi_str digits, int *n) {
    char text[16], wrong[96];
    long long value;
    if (digits.n < sizeof text && consists_of(digits, "")) {
        memcpy(text, digits.p, digits.n);
        text[digits.n] = 0;
        if (opt_read_number(text, 1, HOSTS_RANKS_MAX, &value)) {
            *n = (int)value;
            return MST_OK;
        }
    }
    snprintf(wrong, sizeof wrong, "has no number of ranks from 1 to %d", HOSTS_RANKS_MAX);
    return refuse_word(r, wrong);
}

/* Reads ":N" behind a host, or nothing. */
static mst_status read_count(const struct reader *r, const char *at, const char *end, int *ranks) {
    if (at == end) return MST_OK;
    if (*at != ':') return refuse_word(r, "has something other than ':N' behind ']'");
    return read_number(r, msi_str(at + 1, (size_t)(end - at - 1)), ranks);
}

/* Splits "host", "host:N", "[ipv6]", "[ipv6]:N" or "ipv6"; *ranks is unchanged if there is no number. */
static mst_status split_host(const struct reader *r, struct msi_str text, struct msi_str *host, int *ranks) {
    const char *end = text.p + text.n, *colon = memchr(text.p, ':', text.n);
    if (text.n > 0 && text.p[0] == '[') {
        const char *close = memchr(text.p, ']', text.n);
        if (!close) return refuse_word(r, "has no ']'");
        *host = msi_str(text.p + 1, (size_t)(close - text.p - 1));
        if (!is_ipv6(*host)) return refuse_word(r, "has no IPv6 address in its brackets");
        return read_count(r, close + 1, end, ranks);
    }
    *host = text;
    if (colon && memchr(colon + 1, ':', (size_t)(end - colon - 1))) {
        if (is_ipv6(text)) return MST_OK;
        return refuse_word(r, "is neither host:N nor an IPv6 address; a number of ranks needs [address]:N");
    }
    if (colon) host->n = (size_t)(colon - text.p);
    if (host->n == 0) return refuse_word(r, "has no host name");
    if (host->p[0] == '-' || !consists_of(*host, "._-"))
        return refuse_word(r, "is not a host name or address");
    return colon ? read_count(r, colon, end, ranks) : MST_OK;
}

/* The capacity of the list is the next power of two. */
static mst_status append(struct reader *r, const char *name, struct host **added) {
    struct hosts *h = &r->hosts;
    if (h->n >= HOSTS_MAX) return refuse(r, "there are more than %d hosts", HOSTS_MAX);
    if ((h->n & (h->n - 1)) == 0) {
        struct host *grown = realloc(h->list, sizeof grown[0] * (h->n > 0 ? 2 * (size_t)h->n : 1));
        if (!grown) return msi_fail_memory();
        h->list = grown;
    }
    *added = &h->list[h->n++];
    **added = (struct host){.ranks = 0};
    snprintf((*added)->name, sizeof(*added)->name, "%s", name);
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

/* Splits r->word, [user@]host[:N]; name gets [user@]host without brackets. */
static mst_status split_word(const struct reader *r, char name[HOSTS_NAME_MAX], int *ranks) {
    struct msi_str word = r->word, host = {word.p, 0};
    const char *sign = memchr(word.p, '@', word.n);
    size_t before = sign ? (size_t)(sign - word.p) + 1 : 0;
    if (sign && (word.p[0] == '-' || !consists_of(msi_str(word.p, before - 1), "._-+")))
        return refuse_word(r, "does not begin with a user name");
    mst_status st = split_host(r, msi_str(word.p + before, word.n - before), &host, ranks);
    if (st != MST_OK) return st;
    if (before + host.n >= HOSTS_NAME_MAX) return refuse_word(r, "is too long for a host name");
    memcpy(name, word.p, before);
    memcpy(name + before, host.p, host.n);
    name[before + host.n] = 0;
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
        r.word = msi_str(at, strcspn(at, ","));
        st = r.word.n > 0 ? split_word(&r, name, &ranks)
                          : refuse_text(&r, msi_cstr(text), "has an empty entry between commas");
        if (st == MST_OK) st = add(&r, name, ranks);
        at += r.word.n;
        if (!*at) break;
    }
    return finish(&r, st, hosts);
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

static struct msi_str next_word(struct msi_str *line) {
    size_t skip = 0, end;
    while (skip < line->n && is_blank(line->p[skip])) skip++;
    for (end = skip; end < line->n && !is_blank(line->p[end]);) end++;
    struct msi_str word = msi_str(line->p + skip, end - skip);
    *line = msi_str(line->p + end, line->n - end);
    return word;
}

static bool begins(struct msi_str word, const char *with, struct msi_str *rest) {
    size_t len = strlen(with);
    if (word.n < len || strncasecmp(word.p, with, len)) return false;
    *rest = msi_str(word.p + len, word.n - len);
    return true;
}

/* Reads what follows the host: slots=N, and max_slots=M, which only limits N. */
static mst_status read_settings(struct reader *r, struct msi_str line, const char *name, int *ranks) {
    int most = HOSTS_RANKS_MAX;
    bool counted = *ranks > 0;
    mst_status st = MST_OK;
    struct msi_str rest;
    while (st == MST_OK) {
        r->word = next_word(&line);
        if (r->word.n == 0) break;
        if (begins(r->word, "max_slots=", &rest) || begins(r->word, "max-slots=", &rest))
            st = read_number(r, rest, &most);
        else if (!begins(r->word, "slots=", &rest))
            st = refuse_word(r, "is not valid; a line is host, host:N or host slots=N");
        else if (counted)
            st = refuse_word(r, "is a second number of ranks on one line");
        else
            st = read_number(r, rest, ranks);
        counted = *ranks > 0;
    }
    if (st == MST_OK && *ranks > most)
        return refuse(r, "%d ranks on %s are more than max_slots=%d", *ranks, name, most);
    return st;
}

static mst_status read_line(struct reader *r, struct msi_str line) {
    char name[HOSTS_NAME_MAX];
    int ranks = 0;
    if (line.n > 0 && line.p[line.n - 1] == '\r') line.n--;
    if (line.n >= HOSTS_LINE_MAX) return refuse(r, "the line is longer than %d bytes", HOSTS_LINE_MAX - 1);
    if (memchr(line.p, 0, line.n)) return refuse(r, "the line has a zero byte; this is not a text file");
    const char *comment = memchr(line.p, '#', line.n);
    if (comment) line.n = (size_t)(comment - line.p);
    r->word = next_word(&line);
    if (r->word.n == 0) return MST_OK;
    if (memchr(r->word.p, ',', r->word.n)) return refuse_word(r, "has a comma; a line names one host");
    mst_status st = split_word(r, name, &ranks);
    if (st == MST_OK) st = read_settings(r, line, name, &ranks);
    return st == MST_OK ? add(r, name, ranks) : st;
}

mst_status hosts_read_lines(const char *file, const char *text, size_t len, struct hosts *hosts) {
    struct reader r = {.file = file};
    mst_status st = MST_OK;
    while (st == MST_OK && len > 0) {
        const char *newline = memchr(text, '\n', len);
        size_t line = newline ? (size_t)(newline - text) : len, used = newline ? line + 1 : line;
        r.line++;
        st = read_line(&r, msi_str(text, line));
        text += used;
        len -= used;
    }
    return finish(&r, st, hosts);
}

/* Returns the number of bytes, at most HOSTS_FILE_MAX + 1, or a negative errno. */
static ssize_t read_all(int fd, char *text, int ms) {
    int64_t deadline = msi_deadline(ms);
    size_t len = 0;
    while (len <= HOSTS_FILE_MAX) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, msi_ms_until(deadline)) == 0) return -ETIMEDOUT;
        ssize_t n = read(fd, text + len, HOSTS_FILE_MAX + 1 - len);
        if (n == 0) break;
        if (n > 0)
            len += (size_t)n;
        else if (errno != EAGAIN && errno != EINTR)
            return -errno;
    }
    return (ssize_t)len;
}

/* With O_NONBLOCK and a deadline, because a pipe may have no writer or never end. */
mst_status hosts_read_file(const char *path, struct hosts *hosts) {
    char *text = malloc(HOSTS_FILE_MAX + 1);
    if (!text) return msi_fail_memory();
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    ssize_t len = fd >= 0 ? read_all(fd, text, FILE_SECONDS * 1000) : -errno;
    mst_status st;
    if (len == -ETIMEDOUT)
        st = msi_fail(MST_ERR_TIMEOUT, NULL, "%s: it did not end within %d s", path, FILE_SECONDS);
    else if (len < 0)
        st = msi_fail(MST_ERR_SYSTEM, NULL, "%s: cannot %s it: %s", path, fd < 0 ? "open" : "read",
                      strerror((int)-len));
    else if (len > HOSTS_FILE_MAX)
        st = msi_fail(MST_ERR_LIMIT, NULL, "%s: it is longer than %d bytes", path, HOSTS_FILE_MAX);
    else
        st = hosts_read_lines(path, text, (size_t)len, hosts);
    if (fd >= 0) close(fd);
    free(text);
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
        return msi_fail(MST_ERR_INVALID, NULL, "host %s has %lld ranks, and %d is the most", host->name, sum,
                        HOSTS_RANKS_MAX);
    snprintf(text, HOSTS_NPROC_MAX, "%lld", sum);
    return MST_OK;
}
