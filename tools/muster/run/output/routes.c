/* routes.c - reads torchrun's words for where output goes; see routes.h. The main thread makes and owns them. */
#include "run/output/routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STREAMS = 2, BOTH = 3 };

struct reader {
    const char *option;
    const char *whole; /* the text that began the list */
    int n;             /* ranks */
    char *why;
    size_t why_size;
};

static int refuse(const struct reader *r, const char *takes) {
    snprintf(r->why, r->why_size, "--%s takes %s, not '%s'", r->option, takes, r->whole);
    return -1;
}

/* Digits only, up to limit, or limit + 1 for anything above; false where there are none. */
static bool read_digits(const char **at, int limit, int *number) {
    int value = 0;

    if (**at < '0' || **at > '9') return false;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        value = value * 10 + (**at - '0');
        if (value > limit) value = limit + 1;
    }
    *number = value;
    return true;
}

static bool rank_exists(const struct reader *r, int rank) {
    if (rank < r->n) return true;
    snprintf(r->why, r->why_size, "--%s %s names a local rank that is not there: with %d they end at %d",
             r->option, r->whole, r->n, r->n - 1);
    return false;
}

static int read_masks(const struct reader *r, unsigned char *masks) {
    static const char takes[] = "0 to 3, or pairs of a local rank and 0 to 3 such as 0:1,1:3";
    const char *at = r->whole;
    int rank, mask;

    if (read_digits(&at, BOTH, &mask) && *at == '\0') {
        if (mask > BOTH) return refuse(r, takes);
        memset(masks, mask, (size_t)r->n);
        return 0;
    }
    for (at = r->whole;; at++) {
        if (!read_digits(&at, r->n, &rank) || *at++ != ':') return refuse(r, takes);
        if (!read_digits(&at, BOTH, &mask) || mask > BOTH) return refuse(r, takes);
        if (!rank_exists(r, rank)) return -1;
        masks[rank] = (unsigned char)mask;
        if (*at == '\0') return 0;
        if (*at != ',') return refuse(r, takes);
    }
}

static int read_filter(const struct reader *r, unsigned char *shown) {
    static const char takes[] = "local ranks such as 0,2";
    const char *at = r->whole;
    int rank;

    for (;; at++) {
        if (!read_digits(&at, r->n, &rank)) return refuse(r, takes);
        if (!rank_exists(r, rank)) return -1;
        shown[rank] = 1;
        if (*at == '\0') return 0;
        if (*at != ',') return refuse(r, takes);
    }
}

static void decide(struct routes *routes, const unsigned char *redirects, const unsigned char *tee,
                   const unsigned char *shown) {
    for (int i = 0; i < routes->n * STREAMS; i++) {
        int rank = i / STREAMS, bit = 1 << i % STREAMS;
        bool logged = (redirects[rank] | tee[rank]) & bit;
        bool only_logged = (redirects[rank] & bit) && !(tee[rank] & bit);

        routes->of[i] = (shown[rank] && !only_logged ? ROUTE_SHOWN : 0) | (logged ? ROUTE_LOGGED : 0);
        routes->any_logged |= logged;
    }
}

int routes_read(struct routes *routes, int n, const struct routes_words *w, char *why, size_t why_size) {
    unsigned char *masks = calloc((size_t)n, 3);
    int rc = 0;

    *routes = (struct routes){.n = n, .of = calloc((size_t)n, STREAMS)};
    if (masks == NULL || routes->of == NULL) {
        snprintf(why, why_size, "out of memory");
        rc = -1;
        goto free_masks;
    }
    unsigned char *redirects = masks, *tee = masks + n, *shown = masks + 2 * (size_t)n;
    if (w->redirects != NULL)
        rc = read_masks(&(struct reader){"redirects", w->redirects, n, why, why_size}, redirects);
    if (rc == 0 && w->tee != NULL) rc = read_masks(&(struct reader){"tee", w->tee, n, why, why_size}, tee);
    if (w->redirects == NULL && w->tee == NULL && w->log_all) memset(tee, BOTH, (size_t)n);
    if (w->filter == NULL)
        memset(shown, 1, (size_t)n);
    else if (rc == 0)
        rc = read_filter(&(struct reader){"local-ranks-filter", w->filter, n, why, why_size}, shown);
    if (rc == 0) decide(routes, redirects, tee, shown);

free_masks:
    free(masks);
    if (rc != 0) routes_free(routes);
    return rc;
}

void routes_free(struct routes *routes) {
    free(routes->of);
    *routes = (struct routes){0};
}

unsigned routes_of(const struct routes *routes, int local_rank, int stream) {
    return routes != NULL ? routes->of[local_rank * STREAMS + stream] : ROUTE_SHOWN;
}
