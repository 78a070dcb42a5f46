/* routes.c - reads torchrun's options for where output goes. See routes.h. */
#include "run/output/routes.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

enum { STREAMS = 2, BOTH = 3 };

struct reader {
    const char *option;
    const char *text; /* its value */
    int n;            /* ranks */
    bool has_masks;   /* each rank has a mask: 0 to 3 */
};

static mst_status fail_syntax(const struct reader *r) {
    const char *takes = r->has_masks ? "0 to 3, or pairs of a local rank and 0 to 3 such as 0:1,1:3"
                                     : "local ranks such as 0,2";
    return msi_fail(MST_ERR_INVALID, NULL, "--%s takes %s, not '%s'", r->option, takes, r->text);
}

/* Reads digits: a number up to limit, or limit + 1 for any above. False if there are none. */
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

/* Sets of[rank] to the mask, or to 1 without masks. A mask alone is that of all ranks. */
static mst_status read_ranks(const struct reader *r, unsigned char *of) {
    const char *at = r->text;
    int rank, mask = 1;
    if (r->has_masks && read_digits(&at, BOTH, &mask) && !*at) {
        if (mask > BOTH) return fail_syntax(r);
        memset(of, mask, (size_t)r->n);
        return MST_OK;
    }
    for (at = r->text;; at++) {
        if (!read_digits(&at, r->n, &rank)) return fail_syntax(r);
        if (r->has_masks && (*at++ != ':' || !read_digits(&at, BOTH, &mask) || mask > BOTH))
            return fail_syntax(r);
        if (rank >= r->n)
            return msi_fail(MST_ERR_INVALID, NULL,
                            "--%s %s names a local rank that does not exist; the last is %d", r->option,
                            r->text, r->n - 1);
        of[rank] = (unsigned char)mask;
        if (!*at) return MST_OK;
        if (*at != ',') return fail_syntax(r);
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

mst_status routes_read(struct routes *routes, int n, const struct run_options *o) {
    unsigned char *masks = calloc((size_t)n, 3);
    mst_status st = MST_OK;
    *routes = (struct routes){.n = n, .of = calloc((size_t)n, STREAMS)};
    if (!masks || !routes->of) {
        st = msi_fail_memory();
        goto free_masks;
    }
    unsigned char *redirects = masks, *tee = masks + n, *shown = masks + 2 * (size_t)n;
    if (o->redirects) st = read_ranks(&(struct reader){"redirects", o->redirects, n, true}, redirects);
    if (st == MST_OK && o->tee) st = read_ranks(&(struct reader){"tee", o->tee, n, true}, tee);
    if (!o->redirects && !o->tee && o->log_dir) memset(tee, BOTH, (size_t)n);
    if (!o->filter)
        memset(shown, 1, (size_t)n);
    else if (st == MST_OK)
        st = read_ranks(&(struct reader){"local-ranks-filter", o->filter, n, false}, shown);
    if (st == MST_OK) decide(routes, redirects, tee, shown);

free_masks:
    free(masks);
    return st;
}

void routes_free(struct routes *routes) {
    free(routes->of);
}

unsigned routes_of(const struct routes *routes, int local_rank, int stream) {
    return routes->of[local_rank * STREAMS + stream];
}
