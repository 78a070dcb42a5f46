/* doubling_cost.c - estimates for doubling.c. The busiest rank is one that has an extra rank. */
#include "coll/algorithms/planners.h"
#include "coll/emit.h"

struct shape {
    int p, rest, rounds;
    int near; /* rounds within a host, if consecutive ranks share a host */
    int local;
    bool remote;
};

static struct shape shape_of(const struct msi_request *request) {
    struct shape s = {.rounds = msi_log2_floor(request->size), .local = request->hosts.largest};
    s.p = 1 << s.rounds;
    s.rest = request->size - s.p;
    s.remote = request->hosts.n > 1;
    s.near = s.remote ? msi_log2_floor(s.local) : s.rounds;
    if (s.near > s.rounds) s.near = s.rounds;
    return s;
}

/* Adds the exchange with the extra rank: two rounds, but one message in each direction. */
static void add_extra_rank(const struct msi_request *request, const struct shape *s, double elements,
                           struct msi_formula *f) {
    if (s->rest == 0) return;
    f->rounds += 2;
    f->messages += msi_pieces(request, elements);
    f->raw += elements;
}

void msi_estimate_doubling_all_reduce(const struct msi_request *request, struct msi_formula *f) {
    struct shape s = shape_of(request);
    double count = (double)request->count;
    f->rounds = s.rounds;
    f->remote_rounds = s.rounds - s.near;
    f->messages = s.rounds * msi_pieces(request, count);
    f->remote_messages = f->remote_rounds * msi_pieces(request, count);
    f->acc = s.rounds * count;
    f->host_acc = s.remote ? s.local * (s.rounds - s.near) * count : 0;
    f->combined = s.rounds * count + (s.rest ? count : 0);
    f->copied = 2 * count;
    add_extra_rank(request, &s, count, f);
}

/* Halving: exchanges 1/2, 1/4, … of the buffer. The first exchange is raw if the sender has no extra rank. */
static void add_halving(const struct msi_request *request, const struct shape *s, double count,
                        struct msi_formula *f) {
    double here = s->rest ? count : count / 2;
    for (int k = 0; k < s->rounds; k++) {
        double part = count / (2 << k);
        bool raw = k == 0 && s->rest == 0, leaves = s->remote && k < s->rounds - s->near;
        f->messages += msi_pieces(request, part);
        *(raw ? &f->raw : &f->acc) += part;
        if (leaves) f->remote_messages += msi_pieces(request, part);
        if (leaves) *(raw ? &f->host_raw : &f->host_acc) += s->local * part;
        f->combined += part;
    }
    f->rounds += s->rounds;
    f->remote_rounds += s->rounds - s->near;
    f->copied += here + count / s->p;
}

void msi_estimate_halving_all_reduce(const struct msi_request *request, struct msi_formula *f) {
    struct shape s = shape_of(request);
    double count = (double)request->count;
    add_halving(request, &s, count, f);
    for (int k = 0; k < s.rounds; k++) {
        double part = count / (2 << k);
        f->messages += msi_pieces(request, part);
        f->raw += part;
        if (!s.remote || k >= s.rounds - s.near) continue;
        f->remote_messages += msi_pieces(request, part);
        f->host_raw += s.local * part;
    }
    f->rounds += s.rounds;
    f->remote_rounds += s.rounds - s.near;
    if (s.rest) f->combined += count;
    add_extra_rank(request, &s, count, f);
}

void msi_estimate_halving_reduce_scatter(const struct msi_request *request, struct msi_formula *f) {
    struct shape s = shape_of(request);
    add_halving(request, &s, (double)request->count * request->size, f);
}

void msi_estimate_doubling_all_gather(const struct msi_request *request, struct msi_formula *f) {
    struct shape s = shape_of(request);
    double share = (double)request->count, all = share * request->size;
    /* The block of an extra rank takes another round if most positions have one. */
    f->rounds = s.rounds + (s.rest ? 1 : 0) + (s.rest > s.p / 2 ? 1 : 0);
    f->remote_rounds = s.rounds - s.near;
    /* Initially its own block and that of its extra rank; the others grow alike if all have extra ranks. */
    double have = s.rest ? 2 : 1;
    for (int k = 0; k < s.rounds; k++) {
        double piece = have * (1 << k) < request->size ? have * (1 << k) * share : all;
        f->messages += msi_pieces(request, piece);
        if (!s.remote || k < s.near) continue;
        f->remote_messages += msi_pieces(request, piece);
        f->host_raw += s.local * piece;
    }
    f->raw = all - share;
    if (s.rest) {
        f->messages += 2;
        f->raw = 0;
        for (int k = 0; k < s.rounds; k++) { /* what position 0 sends in round k */
            int end = 1 << k;
            f->raw += (end <= s.rest ? 2 * end : end + s.rest) * share;
        }
        f->raw += all - share;
    }
    if (!request->in_place) f->copied = share;
}

void msi_estimate_dissemination(const struct msi_request *request, struct msi_formula *f) {
    f->rounds = f->messages = f->raw = msi_log2_ceil(request->size);
    if (request->hosts.n > 1) {
        f->remote_messages = f->rounds;
        f->remote_rounds = f->rounds < request->hosts.n ? f->rounds : request->hosts.n;
        for (int d = 1; d < request->size; d *= 2)
            f->host_raw += d < request->hosts.largest ? d : request->hosts.largest;
    }
}
