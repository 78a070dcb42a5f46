/* op.c - the kinds of operations and the signatures that ranks compare. See op.h. Pure; any thread. */
#include "comm/op.h"
#include "base/hash.h"

#include <stdio.h>
#include <string.h>

#define MSI_KIND_OF(id, family, share, name) [MSI_KIND_##id] = MST_KIND_##family,
#define MST_KIND_NONE                        MST_KIND_BARRIER
static const mst_kind kinds[MSI_KIND_COUNT] = {MSI_KINDS(MSI_KIND_OF)};

void msi_op_set_call(struct msi_op *op, enum msi_kind call) {
    op->call = call;
    op->desc.kind = kinds[call];
}

enum msi_kind msi_op_call_of(mst_kind kind) {
    enum msi_kind call = MSI_KIND_BARRIER;
    while (call + 1 < MSI_KIND_COUNT && kinds[call] != kind) call++;
    return call;
}

__attribute__((noinline)) static void cut_tail(struct msi_file_tail *tail, const char *file) {
    size_t len = strlen(file), most = sizeof tail->text;
    memset(tail->text, 0, most);
    memcpy(tail->text, file + (len > most ? len - most : 0), len < most ? len : most);
    tail->file = file;
}

/*
 * What ranks must agree on beyond the signature's fields. Ranks of all_gather, reduce_scatter, gather and
 * scatter give the same counts. Those of all_to_all do not: the engines compare what one rank sends with what
 * the other expects.
 */
static uint64_t hash_counts(const mst_backend_op *desc, int ranks) {
    static const uint64_t key[2] = {1, 2};
    if (desc->kind == MST_KIND_ALL_TO_ALL) return 1;
    const size_t *counts = desc->in_counts ? desc->in_counts : desc->out_counts;
    return msi_hash(counts, (size_t)ranks * sizeof *counts, key);
}

/* A fast hash. Operations that differ almost certainly have different hashes. */
static uint32_t mix(const mst_backend_op *desc, const struct msi_call_signature *s, uint64_t count,
                    uint64_t extra) {
    uint64_t head = (uint64_t)desc->kind | (uint64_t)desc->dtype << 8 | (uint64_t)s->op << 16 |
                    (uint64_t)s->flags << 24 | (uint64_t)(uint32_t)s->root << 32;
    uint64_t mixed =
        head * 0x9E3779B97F4A7C15u ^ (count + 1) * 0xC2B2AE3D27D4EB4Fu ^ extra * 0x165667B19E3779F9u;
    mixed ^= mixed >> 29;
    mixed *= 0xBF58476D1CE4E5B9u;
    return (uint32_t)(mixed >> 32);
}

/* Signs the call that the operation is a part of. Lengths of byte strings are not part of that call. */
static uint64_t sign_whole(struct msi_op *op) {
    struct msi_call_signature *s = &op->signature;
    s->kind = (uint8_t)op->whole;
    s->root = op->whole_root;
    if (op->flags & MSI_SIGNED_BYTES) s->dtype = 0;
    return (uint64_t)op->whole << 32 ^ op->whole_parts;
}

/* Signs a call with flags, a user-defined operation, or blocks of different lengths. Returns the hash. */
__attribute__((noinline)) static uint32_t sign_special(struct msi_op *op, int ranks) {
    const mst_backend_op *desc = &op->desc;
    struct msi_call_signature *s = &op->signature;
    bool uneven = msi_op_is_uneven(op), splits = uneven && desc->kind == MST_KIND_ALL_TO_ALL;
    if (msi_op_is_rejected(op)) { /* all have one hash: ranks that all reject a call stay in step */
        s->dtype = 0;
        s->root = -1;
        return MSI_SIGNED_REJECTED;
    }
    if (uneven) s->flags |= splits ? MSI_SIGNED_SPLITS : MSI_SIGNED_COUNTS;
    if (splits) s->count = 0;
    uint64_t extra = uneven ? hash_counts(desc, ranks) : 0;
    if (op->flags & (MSI_SIGNED_BYTES | MSI_SIGNED_COALESCED)) extra ^= sign_whole(op);
    /* Ranks divide tensors at units. The signature has a part of the operation's number only. */
    if (op->user) extra ^= (uint64_t)op->user->unit << 48 ^ (uint64_t)desc->op << 16;
    return mix(desc, s, uneven ? 0 : desc->count, extra);
}

void msi_op_sign(struct msi_op *op, struct msi_file_tail *tail, int ranks) {
    const mst_backend_op *desc = &op->desc;
    struct msi_call_signature *s = &op->signature;
    s->kind = (uint8_t)op->call;
    s->dtype = (uint8_t)desc->dtype;
    s->op = msi_op_byte((int)desc->op) | (op->quantize ? MSI_OP_BYTE_Q8 : 0);
    s->flags = op->flags;
    s->root = desc->root;
    s->count = desc->count;
    s->line = op->site.line > 0 ? (uint32_t)op->site.line : 0;
    if (op->site.file) {
        if (tail->file != op->site.file) cut_tail(tail, op->site.file);
        memcpy(s->file, tail->text, sizeof s->file);
    }
    bool special = op->flags || op->user || msi_op_is_uneven(op);
    op->hash = special ? sign_special(op, ranks) : mix(desc, s, desc->count, 0);
}

const char *msi_op_compare_counts(const struct msi_op *op, const struct msi_call_signature *other, int rank,
                                  char *out, size_t size) {
    const mst_backend_op *desc = &op->desc;
    const struct msi_call_signature *s = &op->signature;
    bool comparable = s->flags & MSI_SIGNED_COUNTS && other->flags == s->flags && s->dtype == other->dtype &&
                      msi_kind_family(s->kind) == msi_kind_family(other->kind) && s->root == other->root;
    if (!comparable) return NULL;
    const size_t *counts = desc->in_counts ? desc->in_counts : desc->out_counts;
    if (counts[rank] == other->count) return "their .counts differ";
    snprintf(out, size, ".counts[%d] is %zu on this rank, but the block of that rank has %llu elements", rank,
             counts[rank], (unsigned long long)other->count);
    return out;
}

const char *msi_call_signature_show(const struct msi_call_signature *s, char *out, size_t size) {
    const char *form = s->flags & MSI_SIGNED_BYTES       ? "_bytes"
                       : s->flags & MSI_SIGNED_COALESCED ? "_coalesced"
                                                         : "";
    int used = snprintf(out, size, "%s%s", msi_kind_name(s->kind), form);
    size_t at = used < 0 ? 0 : (size_t)used;
    bool splits = s->flags & MSI_SIGNED_SPLITS;
    if (s->dtype && splits && at < size)
        at +=
            (size_t)snprintf(out + at, size - at, " of %s with splits", mst_dtype_name((mst_dtype)s->dtype));
    if (s->dtype && !splits && at < size)
        at += (size_t)snprintf(out + at, size - at, " of %llu %s", (unsigned long long)s->count,
                               mst_dtype_name((mst_dtype)s->dtype));
    mst_kind kind = s->kind < MSI_KIND_COUNT ? kinds[s->kind] : MST_KIND_BARRIER;
    /* A user-defined one is shown with the number of its creation, from 1 on. */
    bool user = msi_op_is_user_byte(s->op), q8 = !user && s->op & MSI_OP_BYTE_Q8;
    if (s->flags & MSI_SIGNED_COUNTS && at < size)
        at += (size_t)snprintf(out + at, size - at, " with .counts");
    if (msi_kind_reduces(kind) && s->dtype && at < size)
        at += (size_t)snprintf(out + at, size - at, " (%s%s%.0d%s%s)",
                               mst_op_name((mst_op)(q8 ? s->op - MSI_OP_BYTE_Q8 : s->op)), user ? " " : "",
                               user ? s->op - MSI_OP_BYTE_USER + 1 : 0, q8 ? ", quantised" : "",
                               s->flags & MSI_SIGNED_DETERMINISTIC ? ", deterministic" : "");
    if (s->flags & MSI_SIGNED_REJECTED && at < size)
        at += (size_t)snprintf(out + at, size - at, " (rejected)");
    if (s->root >= 0 && at < size) at += (size_t)snprintf(out + at, size - at, " with root %d", s->root);
    if (s->line && at < size)
        snprintf(out + at, size - at, " at %.*s:%u", (int)sizeof s->file, s->file, s->line);
    return out;
}
