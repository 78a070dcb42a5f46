/*
 * tree.c - k-nomial trees. Let v be a rank's distance from the root, in base k. Its parent is v with the last
 * non-zero digit set to 0. Example: k = 2 (binomial), 8 ranks.
 *
 *      0 ─┬─ 4 ─┬─ 6 ── 7         n ranks, m elements; L = the maximum number of non-zero
 *         ├─ 2  └─ 5              digits of a number below n, at most log_k n;
 *         │  └─ 3                 the subtree of v is v … v + w - 1, where w is the weight of that digit
 *         └─ 1
 *
 *  broadcast  down the tree.      L rounds; the root sends m to each child, up to (k-1) ceil(log_k n) m
 *  reduce     up the tree; leaves send raw inputs, inner ranks partial sums. L rounds, m per child at root
 *  gather     up the tree; a subtree is one message (two if the ranks wrap around).
 *  scatter    down the tree.      L rounds; the root sends all but its share
 *
 * k is the request's radix. It defaults to 2 for "tree" and to 4 for "wide_tree": fewer rounds, more bytes at
 * the root.
 */
#include "coll/algorithms/planners.h"
#include "coll/emit.h"

struct node {
    int n, k, root;
    int v;      /* distance from the root */
    int weight; /* of its last non-zero digit; for the root, the smallest power of k >= n */
    int parent; /* -1: the root */
};

static struct node node_of(int v, int n, int k, int root) {
    struct node node = {.n = n, .k = k, .root = root, .v = v, .weight = 1, .parent = -1};
    while (node.weight < n && v / node.weight % k == 0) node.weight *= k;
    if (v > 0) node.parent = v - v / node.weight % k * node.weight;
    return node;
}

static struct node this_node(const struct msi_plan *plan) {
    int n = plan->request.size, root = plan->request.root;
    return node_of(msi_minus(plan->request.rank, root, n), n, plan->request.radix, root);
}

static int rank_of(const struct node *node, int v) {
    return msi_plus(v, node->root, node->n);
}

/* Iterates over the children, the largest subtree first. width is the maximum size of the child's subtree. */
#define for_each_child(node, child, width)                                                                   \
    for (int width = (node)->weight / (node)->k, child = (node)->v + width; width >= 1;                      \
         width /= (node)->k, child = (node)->v + width)                                                      \
        for (; child < (node)->v + width * (node)->k && child < (node)->n; child += width)

static bool is_leaf(const struct node *node, int child, int width) {
    return width == 1 || child + 1 >= node->n;
}

void msi_plan_tree_broadcast(struct msi_plan *plan) {
    struct node node = this_node(plan);
    size_t count = plan->request.count;
    struct msi_ref here = msi_ref(node.parent < 0 ? MSI_IN : MSI_OUT, 0);
    if (node.parent >= 0) msi_emit_recv(plan, rank_of(&node, node.parent), here, count);
    for_each_child(&node, child, width) msi_emit_send(plan, rank_of(&node, child), here, count);
    if (node.parent < 0) msi_emit(plan, MSI_COPY, msi_ref(MSI_OUT, 0), here, count);
}

void msi_plan_tree_reduce(struct msi_plan *plan) {
    struct node node = this_node(plan);
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

/* The nodes first … end-1. */
struct subtree {
    int first, end;
};

static struct subtree subtree_of(const struct node *node, int v, int width) {
    return (struct subtree){v, v + width < node->n ? v + width : node->n};
}

/*
 * Transfers the blocks of a subtree, which are contiguous unless the ranks wrap around. buffer is this node's
 * buffer: the user's buffer in rank order at the root, else scratch that begins with the node's own block.
 * peer is a node.
 */
static void transfer_subtree(struct msi_plan *plan, const struct node *node, struct subtree subtree,
                             enum msi_step_kind kind, int peer, struct msi_ref buffer) {
    int wrap = node->n - node->root, end = subtree.end;
    for (int from = subtree.first, to; from < end; from = to) {
        to = from < wrap && end > wrap ? wrap : end;
        int rank = rank_of(node, from);
        struct msi_span blocks = msi_plan_shares(plan, rank, rank + to - from);
        struct msi_ref at = msi_ref_plus(buffer, blocks.at);
        if (node->parent >= 0) {
            struct msi_span mine = msi_plan_share(plan, plan->request.rank);
            bool wrapped = from >= wrap && node->v < wrap;
            size_t before = wrapped ? msi_plan_shares(plan, 0, node->n).count : 0;
            at = msi_ref_plus(buffer, before + blocks.at - mine.at);
        }
        msi_emit_transfer(plan, kind, rank_of(node, peer), at, blocks.count);
    }
}

/*
 * Gather and scatter. root_space is the space of the user's buffer at the root, leaf_space that of one share.
 * Sets *own to this rank's block and returns the buffer of the subtree.
 */
static struct msi_ref subtree_buffer(struct msi_plan *plan, const struct node *node,
                                     enum msi_space root_space, enum msi_space leaf_space,
                                     struct msi_ref *own) {
    struct subtree all = subtree_of(node, node->v, node->weight);
    size_t sum = 0;
    *own = msi_ref(root_space, msi_plan_share(plan, plan->request.rank).at);
    if (node->parent < 0) return msi_ref(root_space, 0);
    if (all.end == node->v + 1) return *own = msi_ref(leaf_space, 0);
    for (int v = all.first; v < all.end; v++) sum += msi_plan_share(plan, rank_of(node, v)).count;
    return *own = msi_emit_scratch(plan, MSI_RAW, sum);
}

void msi_plan_tree_gather(struct msi_plan *plan) {
    struct node node = this_node(plan);
    struct msi_ref own, buffer = subtree_buffer(plan, &node, MSI_OUT, MSI_IN, &own);
    msi_emit(plan, MSI_COPY, own, msi_ref(MSI_IN, 0), msi_plan_share(plan, plan->request.rank).count);
    for_each_child(&node, child, width)
        transfer_subtree(plan, &node, subtree_of(&node, child, width), MSI_RECV, child, buffer);
    if (node.parent >= 0)
        transfer_subtree(plan, &node, subtree_of(&node, node.v, node.weight), MSI_SEND, node.parent, buffer);
}

void msi_plan_tree_scatter(struct msi_plan *plan) {
    struct node node = this_node(plan);
    struct msi_ref own, buffer = subtree_buffer(plan, &node, MSI_IN, MSI_OUT, &own);
    if (node.parent >= 0)
        transfer_subtree(plan, &node, subtree_of(&node, node.v, node.weight), MSI_RECV, node.parent, buffer);
    for_each_child(&node, child, width)
        transfer_subtree(plan, &node, subtree_of(&node, child, width), MSI_SEND, child, buffer);
    msi_emit(plan, MSI_COPY, msi_ref(MSI_OUT, 0), own, msi_plan_share(plan, plan->request.rank).count);
}

/* The depth of the tree: the maximum number of non-zero digits of a number below n. */
static int depth_of(int n, int k) {
    int depth = 0;
    for (int64_t ones = 1; ones < n; ones = ones * k + 1) depth++;
    return depth;
}

/*
 * The maximum number of hops between hosts: only digits that do not cut a host into whole subtrees leave it.
 */
static int remote_depth(int n, int k, int local) {
    int weight = 1;
    while (local % (weight * k) == 0) weight *= k;
    return depth_of((n + weight - 1) / weight, k);
}

/* Sums over the children of the root, the busiest rank. Assumes that consecutive ranks share a host. */
static void estimate(const struct msi_request *request, bool up, struct msi_formula *f) {
    int k = request->radix;
    struct node root = node_of(0, request->size, k, 0);
    double count = (double)request->count;
    int hosts = request->hosts.n, local = request->hosts.largest;
    f->rounds = depth_of(root.n, k);
    f->remote_rounds = hosts > 1 ? remote_depth(root.n, k, local) : 0;
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
    estimate(request, false, f);
}
void msi_estimate_tree_reduce(const struct msi_request *request, struct msi_formula *f) {
    estimate(request, true, f);
}

void msi_estimate_tree_gather(const struct msi_request *request, struct msi_formula *f) {
    struct node root = node_of(0, request->size, request->radix, 0);
    double share = (double)request->count;
    estimate(request, false, f);
    f->messages = f->remote_messages = f->host_raw = f->fill = 0;
    f->raw = (request->size - 1) * share;
    for_each_child(&root, child, width) {
        double blocks = subtree_of(&root, child, width).end - child;
        f->messages += msi_pieces(request, blocks * share);
        if (request->hosts.n < 2 || child < request->hosts.largest) continue;
        f->remote_messages += msi_pieces(request, blocks * share);
        f->host_raw += blocks * share;
    }
}

void msi_estimate_tree_scatter(const struct msi_request *request, struct msi_formula *f) {
    msi_estimate_tree_gather(request, f);
}
