/*
 * hosts.c - reads lists of hosts; see hosts.h. Used by the main thread before anything is started; the list is the
 * caller's.
 */
#include "run/nodes/hosts.h"

#include "cli/options.h"
#include "cli/text.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* What is being read, and where the reader stands. */
struct reader {
    struct hosts hosts;
    const char *file; /* NULL: the command line */
    int line;
    char *why;
    size_t why_size;
};

struct piece {
    const char *at;
    size_t len;
};

__attribute__((format(printf, 2, 3))) static int refuse(const struct reader *r, const char *format, ...) {
    int used = r->file != NULL && r->line > 0 ? snprintf(r->why, r->why_size, "%s:%d: ", r->file, r->line)
               : r->file != NULL              ? snprintf(r->why, r->why_size, "%s: ", r->file)
                                              : snprintf(r->why, r->why_size, "--hosts: ");
    va_list args;

    if (used < 0 || (size_t)used >= r->why_size) return -1;
    va_start(args, format);
    vsnprintf(r->why + used, r->why_size - (size_t)used, format, args);
    va_end(args);
    return -1;
}

/* A piece of input as messages show it: short, and harmless to a terminal. */
struct shown {
    char text[64];
};

static struct shown show(struct piece p) {
    enum { MOST = 60 };
    struct shown s;

    if (p.len > MOST)
        snprintf(s.text, sizeof s.text, "%.*s...", MOST, p.at);
    else
        snprintf(s.text, sizeof s.text, "%.*s", (int)p.len, p.at);
    text_clean(s.text, false);
    return s;
}

static bool all_among(struct piece p, const char *marks) {
    for (size_t i = 0; i < p.len; i++) {
        char c = p.at[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (c == '\0' || (!plain && strchr(marks, c) == NULL)) return false;
    }
    return p.len > 0;
}

static bool is_six(struct piece p) {
    char text[INET6_ADDRSTRLEN + 1];
    struct in6_addr address;
    const char *zone = memchr(p.at, '%', p.len);
    size_t len = zone != NULL ? (size_t)(zone - p.at) : p.len;

    if (len >= sizeof text) return false;
    memcpy(text, p.at, len);
    text[len] = '\0';
    if (zone != NULL && !all_among((struct piece){zone + 1, p.len - len - 1}, "._-")) return false;
    return inet_pton(AF_INET6, text, &address) == 1;
}

static int check_user(const struct reader *r, struct piece user, struct piece word) {
    if (user.len > 0 && user.at[0] != '-' && all_among(user, "._-+")) return 0;
    return refuse(r, "'%s' does not begin with the name of a user", show(word).text);
}

static int read_number(const struct reader *r, struct piece digits, struct piece word, int least, int *n) {
    char text[16];
    long long value;

    if (digits.len > 0 && digits.len < sizeof text && all_among(digits, "")) {
        memcpy(text, digits.at, digits.len);
        text[digits.len] = '\0';
        if (opt_read_number(text, least, HOSTS_RANKS_MAX, &value)) {
            *n = (int)value;
            return 0;
        }
    }
    return refuse(r, "'%s' is not a number of ranks, which is a whole number from %d to %d", show(word).text,
                  least, HOSTS_RANKS_MAX);
}

/* The ":N" behind a host, or nothing. */
static int read_count(const struct reader *r, struct piece rest, struct piece word, int *ranks) {
    if (rest.len == 0) return 0;
    if (rest.at[0] != ':')
        return refuse(r, "'%s' has something behind ']' that is not ':N'", show(word).text);
    return read_number(r, (struct piece){rest.at + 1, rest.len - 1}, word, 1, ranks);
}

/* Splits "host", "host:N", "[six]", "[six]:N" or "six"; *ranks stays as it is where there is no number. */
static int split_host(const struct reader *r, struct piece text, struct piece word, struct piece *host,
                      int *ranks) {
    const char *end = text.at + text.len;
    const char *colon = memchr(text.at, ':', text.len);

    if (text.len > 0 && text.at[0] == '[') {
        const char *close = memchr(text.at, ']', text.len);
        if (close == NULL) return refuse(r, "'%s' has no ']'", show(word).text);
        *host = (struct piece){text.at + 1, (size_t)(close - text.at - 1)};
        if (!is_six(*host)) return refuse(r, "'%s' has no IPv6 address in its brackets", show(word).text);
        return read_count(r, (struct piece){close + 1, (size_t)(end - close - 1)}, word, ranks);
    }
    *host = text;
    if (colon != NULL && memchr(colon + 1, ':', (size_t)(end - colon - 1)) != NULL) {
        if (is_six(text)) return 0;
        return refuse(r, "'%s' is neither host:N nor an IPv6 address; a number of ranks needs [address]:N",
                      show(word).text);
    }
    if (colon != NULL) host->len = (size_t)(colon - text.at);
    if (host->len == 0) return refuse(r, "'%s' has no name of a host", show(word).text);
    if (host->at[0] == '-' || !all_among(*host, "._-"))
        return refuse(r, "'%s' is not the name or address of a host", show(word).text);
    return colon == NULL ? 0 : read_count(r, (struct piece){colon, (size_t)(end - colon)}, word, ranks);
}

static struct host *find(const struct hosts *hosts, const char *name) {
    for (int i = 0; i < hosts->n; i++)
        if (strcasecmp(hosts->list[i].name, name) == 0) return &hosts->list[i];
    return NULL;
}

/* The list grows by doubling: its capacity is the next power of two. */
static struct host *append(struct reader *r, const char *name) {
    struct hosts *h = &r->hosts;

    if (h->n >= HOSTS_MAX) {
        refuse(r, "there are more than %d hosts", HOSTS_MAX);
        return NULL;
    }
    if ((h->n & (h->n - 1)) == 0) {
        struct host *grown = realloc(h->list, sizeof grown[0] * (h->n > 0 ? 2 * (size_t)h->n : 1));
        if (grown == NULL) {
            refuse(r, "out of memory");
            return NULL;
        }
        h->list = grown;
    }
    struct host *host = &h->list[h->n++];
    *host = (struct host){.ranks = 0};
    snprintf(host->name, sizeof host->name, "%s", name);
    return host;
}

/* ranks 0: no number was given. */
static int add(struct reader *r, const char *name, int ranks) {
    struct host *host = find(&r->hosts, name);

    if (host == NULL) host = append(r, name);
    if (host == NULL) return -1;
    if (host->ranks + host->open + (ranks > 0 ? ranks : 1) > HOSTS_RANKS_MAX)
        return refuse(r, "host %s has more than %d ranks", name, HOSTS_RANKS_MAX);
    host->ranks += ranks;
    host->open += ranks == 0;
    return 0;
}

/* One [user@]host[:N]; name gets the part without brackets and number. */
static int split_word(const struct reader *r, struct piece word, char name[HOSTS_NAME_MAX], int *ranks) {
    const char *sign = memchr(word.at, '@', word.len);
    size_t user = sign != NULL ? (size_t)(sign - word.at) : 0, before = sign != NULL ? user + 1 : 0;
    struct piece host = {word.at, 0};

    if (sign != NULL && check_user(r, (struct piece){word.at, user}, word) != 0) return -1;
    if (split_host(r, (struct piece){word.at + before, word.len - before}, word, &host, ranks) != 0)
        return -1;
    if (before + host.len >= HOSTS_NAME_MAX)
        return refuse(r, "'%s' is longer than any name of a host", show(word).text);
    memcpy(name, word.at, before);
    memcpy(name + before, host.at, host.len);
    name[before + host.len] = '\0';
    return 0;
}

static int finish(struct reader *r, int rc, struct hosts *hosts) {
    if (rc == 0 && r->hosts.n == 0) {
        r->line = 0;
        rc = refuse(r, "there is no host in it");
    }
    if (rc == 0)
        *hosts = r->hosts;
    else
        hosts_free(&r->hosts);
    return rc;
}

int hosts_read_list(const char *text, struct hosts *hosts, char *why, size_t why_size) {
    struct reader r = {.why = why, .why_size = why_size};
    int rc = 0;

    for (const char *at = text; rc == 0 && *text != '\0'; at++) {
        struct piece word = {at, strcspn(at, ",")};
        char name[HOSTS_NAME_MAX];
        int ranks = 0;

        if (word.len == 0)
            rc = refuse(&r, "there is a comma too many in '%s'",
                        show((struct piece){text, strlen(text)}).text);
        if (rc == 0) rc = split_word(&r, word, name, &ranks);
        if (rc == 0) rc = add(&r, name, ranks);
        at += word.len;
        if (*at == '\0') break;
    }
    return finish(&r, rc, hosts);
}

static struct piece next_word(struct piece *line) {
    while (line->len > 0 && (*line->at == ' ' || *line->at == '\t')) {
        line->at++;
        line->len--;
    }
    struct piece word = {line->at, 0};
    while (word.len < line->len && line->at[word.len] != ' ' && line->at[word.len] != '\t') word.len++;
    line->at += word.len;
    line->len -= word.len;
    return word;
}

static bool begins(struct piece word, const char *with, struct piece *rest) {
    size_t len = strlen(with);

    if (word.len < len || strncasecmp(word.at, with, len) != 0) return false;
    *rest = (struct piece){word.at + len, word.len - len};
    return true;
}

/* What follows the host: slots=N, and max_slots=M, which changes nothing since nobody starts more than slots. */
static int read_settings(const struct reader *r, struct piece line, struct piece host, int *ranks) {
    int most = HOSTS_RANKS_MAX;
    bool counted = *ranks > 0;
    struct piece rest;

    for (struct piece word = next_word(&line); word.len > 0; word = next_word(&line)) {
        if (begins(word, "slots=", &rest)) {
            if (counted) return refuse(r, "'%s' is a second number of ranks for one line", show(word).text);
            if (read_number(r, rest, word, 1, ranks) != 0) return -1;
            counted = true;
        } else if (begins(word, "max_slots=", &rest) || begins(word, "max-slots=", &rest)) {
            if (read_number(r, rest, word, 1, &most) != 0) return -1;
        } else {
            return refuse(r, "'%s' is not understood; a line is host, host:N or host slots=N",
                          show(word).text);
        }
    }
    if (*ranks > most)
        return refuse(r, "%d ranks on %s are more than max_slots=%d", *ranks, show(host).text, most);
    return 0;
}

static int read_line(struct reader *r, struct piece line) {
    char name[HOSTS_NAME_MAX];
    int ranks = 0;

    if (line.len > 0 && line.at[line.len - 1] == '\r') line.len--;
    if (line.len >= HOSTS_LINE_MAX) return refuse(r, "the line is longer than %d bytes", HOSTS_LINE_MAX - 1);
    if (memchr(line.at, '\0', line.len) != NULL)
        return refuse(r, "there is a zero byte: this is not a text file");
    const char *comment = memchr(line.at, '#', line.len);
    if (comment != NULL) line.len = (size_t)(comment - line.at);
    struct piece word = next_word(&line);
    if (word.len == 0) return 0;
    if (memchr(word.at, ',', word.len) != NULL)
        return refuse(r, "'%s' has a comma; a line names one host", show(word).text);
    if (split_word(r, word, name, &ranks) != 0) return -1;
    if (read_settings(r, line, word, &ranks) != 0) return -1;
    return add(r, name, ranks);
}

int hosts_read_lines(const char *file, const char *text, size_t len, struct hosts *hosts, char *why,
                     size_t why_size) {
    struct reader r = {.file = file, .why = why, .why_size = why_size};
    int rc = 0;

    while (rc == 0 && len > 0) {
        const char *newline = memchr(text, '\n', len);
        size_t line = newline != NULL ? (size_t)(newline - text) : len;
        size_t used = line + (newline != NULL);

        r.line++;
        rc = read_line(&r, (struct piece){text, line});
        text += used;
        len -= used;
    }
    return finish(&r, rc, hosts);
}

void hosts_free(struct hosts *hosts) {
    free(hosts->list);
    *hosts = (struct hosts){0};
}

int hosts_nproc(const struct host *host, const char *nproc, char text[HOSTS_NPROC_MAX], char *why,
                size_t why_size) {
    long long each = 0;

    if (host->open > 0 && !opt_read_number(nproc, 1, HOSTS_RANKS_MAX, &each)) {
        if (host->open == 1 && host->ranks == 0 && strlen(nproc) < HOSTS_NPROC_MAX) {
            snprintf(text, HOSTS_NPROC_MAX, "%s", nproc);
            return 0;
        }
        snprintf(why, why_size, "host %s is named more than once, and '-n %.20s' cannot be added up",
                 host->name, nproc);
        return -1;
    }
    long long sum = host->ranks + host->open * each;
    if (sum > HOSTS_RANKS_MAX) {
        snprintf(why, why_size, "host %s has %lld ranks, and %d is the most", host->name, sum,
                 HOSTS_RANKS_MAX);
        return -1;
    }
    snprintf(text, HOSTS_NPROC_MAX, "%lld", sum);
    return 0;
}
