/*
 * tree.c - k-nomial trees: write a rank's distance v from the root in base k; its parent is v without the last digit that
 * is not 0. Below, k = 2 (binomial) and 8 ranks:
 *
 *      0 ─┬─ 4 ─┬─ 6 ── 7         n ranks, m elements; L = the most digits other
 *         ├─ 2  └─ 5              than 0 of a number below n, at most log_k n;
 *         │  └─ 3                 the subtree of v is v … v + w - 1, where w is the weight of that digit
 *         └─ 1
 *
 *  broadcast  down the tree.                          L rounds, the root sends m for each child, up to (k-1) ceil(log_k n) m
 *  reduce     up the tree; leaves send raw inputs, inner ranks partial sums.      L rounds, the root receives the same
 *  gather     up the tree, subtrees as one message (two where the ranks wrap around).
 *  scatter    down the tree.                          L rounds, the root sends all but its share
 *
 * "tree" is binomial, "wide_tree" has k = 4, or the request's radix: fewer rounds, more bytes at the root.
 */
#include "coll/algorithms/planners.h"
#include "coll/emit.h"

struct node {
    int n, k, root;
    int v;      /* distance from the root */
    int weight; /* of its last digit that is not 0; of the root, the first power of k that is not below n */
    int parent; /* -1: the root */
};

static struct node node_of(int v, int n, int k, int root) {
    struct node node = {.n = n, .k = k, .root = root, .v = v, .weight = 1, .parent = -1};
    while (node.weight < n && v / node.weight % k == 0) node.weight *= k;
    if (v > 0) node.parent = v - v / node.weight % k * node.weight;
    return node;
}

static struct node this_node(const struct msi_plan *plan, int k) {
    int n = plan->request.size, root = plan->request.root;
    if (plan->request.radix >= 2) k = plan->request.radix;
    return node_of(msi_minus(plan->request.rank, root, n), n, k, root);
}

static int rank_of(const struct node *node, int v) {
    return msi_plus(v, node->root, node->n);
}

/* Calls for each child, the largest subtree first; width is the most that the subtree can hold. */
#define for_each_child(node, child, width)                                                                   \
    for (int width = (node)->weight / (node)->k, child = (node)->v + width; width >= 1;                      \
         width /= (node)->k, child = (node)->v + width)                                                      \
        for (; child < (node)->v + width * (node)->k && child < (node)->n; child += width)

static bool is_leaf(const struct node *node, int child, int width) {
    return width == 1 || child + 1 >= node->n;
}

static void broadcast(struct msi_plan *plan, int k) {
    struct node node = this_node(plan, k);
    size_t count = plan->request.count;
    struct msi_ref here = msi_ref(node.parent < 0 ? MSI_IN : MSI_OUT, 0);
    if (node.parent >= 0) msi_emit_recv(plan, rank_of(&node, node.parent), here, count);
    for_each_child(&node, child, width) msi_emit_send(plan, rank_of(&node, child), here, count);
    if (node.parent < 0) msi_emit(plan, MSI_COPY, msi_ref(MSI_OUT, 0), here, count);
}

static void reduce(struct msi_plan *plan, int k) {
    struct node node = this_node(plan, k);
    size_t count = plan->request.count;
    struct msi_ref in = msi_ref(MSI_IN, 0);
    if (node.parent >= 0 && is_leaf(&node, node.v, node.weight)) {
        msi_emit_send(plan, rank_of(&node, node.parent), in, count);
        return;
    }
    struct msi_ref sum = msi_emit_scratch(plan, MSI_ACC, count);
    msi_emit(plan, MSI_BEGIN, sum, in, count);
    for_each_child(&node, child, width) {
        bool raw = is_leaf(&node, child, width);
        struct msi_ref got = msi_emit_scratch(plan, raw ? MSI_RAW : MSI_ACC, count);
        msi_emit_recv(plan, rank_of(&node, child), got, count);
        msi_emit(plan, raw ? MSI_ADD : MSI_MERGE, sum, got, count);
    }
    if (node.parent >= 0)
        msi_emit_send(plan, rank_of(&node, node.parent), sum, count);
    else
        msi_emit(plan, MSI_END, msi_ref(MSI_OUT, 0), sum, count);
}

void msi_plan_tree_broadcast(struct msi_plan *plan) {
    broadcast(plan, 2);
}
void msi_plan_wide_tree_broadcast(struct msi_plan *plan) {
    broadcast(plan, 4);
}
void msi_plan_tree_reduce(struct msi_plan *plan) {
    reduce(plan, 2);
}
void msi_plan_wide_tree_reduce(struct msi_plan *plan) {
    reduce(plan, 4);
}

/*
 * The blocks of the subtree first … end-1, which lie one behind the other except where the ranks wrap around. home is
 * where they are kept: at the root the user's buffer, in rank order, elsewhere scratch that begins with node v.
 */
static void move_blocks(struct msi_plan *plan, const struct node *node, int first, int end, int peer,
                        struct msi_ref home, bool send) {
    int wrap = node->n - node->root;
    for (int from = first, to; from < end; from = to) {
        to = from < wrap && end > wrap ? wrap : end;
        int rank = rank_of(node, from);
        struct msi_span blocks = msi_plan_shares(plan, rank, rank + to - from);
        struct msi_ref at = msi_ref_plus(home, blocks.at);
        if (node->parent >= 0) {
            struct msi_span mine = msi_plan_share(plan, plan->request.rank);
            bool wrapped = from >= wrap && node->v < wrap;
            size_t before = wrapped ? msi_plan_shares(plan, 0, node->n).count : 0;
            at = msi_ref_plus(home, before + blocks.at - mine.at);
        }
        if (send)
            msi_emit_send(plan, peer, at, blocks.count);
        else
            msi_emit_recv(plan, peer, at, blocks.count);
    }
}

static int subtree_end(const struct node *node, int v, int width) {
    return v + width < node->n ? v + width : node->n;
}

static size_t subtree_elements(struct msi_plan *plan, const struct node *node, int end) {
    size_t sum = 0;
    for (int v = node->v; v < end; v++) sum += msi_plan_share(plan, rank_of(node, v)).count;
    return sum;
}

void msi_plan_tree_gather(struct msi_plan *plan) {
    struct node node = this_node(plan, 2);
    int end = subtree_end(&node, node.v, node.weight);
    struct msi_span mine = msi_plan_share(plan, plan->request.rank);
    struct msi_ref home = msi_ref(MSI_OUT, 0), own = msi_ref(MSI_OUT, mine.at);
    if (node.parent >= 0) {
        bool leaf = end == node.v + 1;
        home = own =
            leaf ? msi_ref(MSI_IN, 0) : msi_emit_scratch(plan, MSI_RAW, subtree_elements(plan, &node, end));
    }
    msi_emit(plan, MSI_COPY, own, msi_ref(MSI_IN, 0), mine.count);
    for_each_child(&node, child, width)
        move_blocks(plan, &node, child, subtree_end(&node, child, width), rank_of(&node, child), home, false);
    if (node.parent >= 0) move_blocks(plan, &node, node.v, end, rank_of(&node, node.parent), home, true);
}

void msi_plan_tree_scatter(struct msi_plan *plan) {
    struct node node = this_node(plan, 2);
    int end = subtree_end(&node, node.v, node.weight);
    struct msi_span mine = msi_plan_share(plan, plan->request.rank);
    struct msi_ref home = msi_ref(MSI_IN, 0), own = msi_ref(MSI_IN, mine.at);
    if (node.parent >= 0) {
        bool leaf = end == node.v + 1;
        home = own =
            leaf ? msi_ref(MSI_OUT, 0) : msi_emit_scratch(plan, MSI_RAW, subtree_elements(plan, &node, end));
        move_blocks(plan, &node, node.v, end, rank_of(&node, node.parent), home, false);
    }
    for_each_child(&node, child, width)
        move_blocks(plan, &node, child, subtree_end(&node, child, width), rank_of(&node, child), home, true);
    msi_emit(plan, MSI_COPY, msi_ref(MSI_OUT, 0), own, mine.count);
}

/* The longest way down: the most digits, none of them 0, that a number below n has. */
static int depth_of(int n, int k) {
    int depth = 0;
    for (int64_t ones = 1; ones < n; ones = ones * k + 1) depth++;
    return depth;
}

/* The longest way between hosts of so many ranks: those digits lead out of one by which it is not cut into whole subtrees. */
static int far_depth(int n, int k, int local) {
    int weight = 1;
    while (local % (weight * k) == 0) weight *= k;
    return depth_of((n + weight - 1) / weight, k);
}

/* Walks the root's children, for all costs are greatest there. Remote rounds: hosts filled one after the other. */
static void price(const struct msi_request *request, int k, bool up, struct msi_formula *f) {
    if (request->radix >= 2) k = request->radix;
    struct node root = node_of(0, request->size, k, 0);
    double count = (double)request->count;
    int hosts = request->hosts.n, local = request->hosts.largest;
    f->rounds = depth_of(root.n, k);
    f->remote_rounds = hosts > 1 ? far_depth(root.n, k, local) : 0;
    for_each_child(&root, child, width) {
        bool acc = up && !is_leaf(&root, child, width);
        f->messages += msi_pieces(request, count);
        *(acc ? &f->acc : &f->raw) += count;
        if (up) f->combined += count;
        if (hosts < 2 || child < local) continue;
        f->remote_messages += msi_pieces(request, count);
        *(acc ? &f->host_acc : &f->host_raw) += count;
    }
    f->copied = up ? 2 * count : request->in_place ? 0 : count;
    if (!up && request->chunk && request->chunk < request->count)
        f->fill = (f->rounds - 1) * (double)request->chunk;
}

void msi_estimate_tree_broadcast(const struct msi_request *request, struct msi_formula *f) {
    price(request, 2, false, f);
}
void msi_estimate_wide_tree_broadcast(const struct msi_request *request, struct msi_formula *f) {
    price(request, 4, false, f);
}
void msi_estimate_tree_reduce(const struct msi_request *request, struct msi_formula *f) {
    price(request, 2, true, f);
}
void msi_estimate_wide_tree_reduce(const struct msi_request *request, struct msi_formula *f) {
    price(request, 4, true, f);
}

void msi_estimate_tree_gather(const struct msi_request *request, struct msi_formula *f) {
    struct node root = node_of(0, request->size, request->radix >= 2 ? request->radix : 2, 0);
    double share = (double)request->count;
    price(request, 2, false, f);
    f->messages = f->remote_messages = f->host_raw = f->fill = 0;
    f->raw = (request->size - 1) * share;
    for_each_child(&root, child, width) {
        double blocks = subtree_end(&root, child, width) - child;
        f->messages += msi_pieces(request, blocks * share);
        if (request->hosts.n < 2 || child < request->hosts.largest) continue;
        f->remote_messages += msi_pieces(request, blocks * share);
        f->host_raw += blocks * share;
    }
}

void msi_estimate_tree_scatter(const struct msi_request *request, struct msi_formula *f) {
    msi_estimate_tree_gather(request, f);
}
