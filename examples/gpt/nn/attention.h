/*
 * attention.h - causal multi-head attention over blocks of keys and values.
 *
 * A process that holds all keys passes them as one block (gpt_attend). Where a sequence is split over
 * processes, blocks come in any order: begin, each block once, end. The forward pass keeps the output and,
 * for each row, the logarithm of the sum of exponentials (lse). The backward pass recomputes the
 * probabilities from them.
 *
 *   forward, each block:   m' = max(m, rowmax(s)), p = e^(s - m'), out = out e^(m - m') + p v, sum likewise
 *   backward, each block:  p = e^(s - lse), dv += p^T dout, ds = p (dout v^T - delta), dq += ds k,
 *                          dk += ds^T q
 */
#ifndef GPT_NN_ATTENTION_H
#define GPT_NN_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>

/* Row t of head h of sequence b is at data + b * batch + t * row + h * head_width. */
struct gpt_rows {
    float *data;
    size_t batch, row;
};

struct gpt_attention {
    size_t batch, heads, head_width;
    size_t queries;  /* of each sequence */
    size_t position; /* of the first query; the others follow */
    struct gpt_rows q, out;
    /* [batch][heads][queries] each; sum is used between begin and end, and for delta in the backward pass. */
    float *lse, *sum;
    size_t stride;  /* of lse and sum from head to head if these are some of the queries; 0: queries */
    float *scratch; /* gpt_attention_scratch(keys of the largest block) floats */
};

struct gpt_keys {
    size_t count; /* of each sequence */
    size_t
        position; /* of the first key; the others follow. A query attends to keys up to its own position. */
    struct gpt_rows k, v;
    /* k is transposed: row i of head h of sequence b holds element i of all keys, at
       data + b * batch + (h * head_width + i) * row. Forward pass only. */
    bool transposed;
};

size_t gpt_attention_scratch(size_t keys);

void gpt_attend_begin(const struct gpt_attention *a);
void gpt_attend_block(const struct gpt_attention *a, const struct gpt_keys *keys);
void gpt_attend_end(const struct gpt_attention *a);
/* All three steps, with one block. */
void gpt_attend(const struct gpt_attention *a, const struct gpt_keys *keys);

/* The backward pass: begin once, then each block once. dout has the layout of out. Adds to dq, dk and dv. */
void gpt_attend_back_begin(const struct gpt_attention *a, struct gpt_rows dout);
void gpt_attend_back_block(const struct gpt_attention *a, const struct gpt_keys *keys, struct gpt_rows dout,
                           struct gpt_rows dq, struct gpt_rows dk, struct gpt_rows dv);

#endif
