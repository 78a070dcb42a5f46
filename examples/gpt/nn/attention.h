/*
 * attention.h - causal attention of several heads, over keys and values that come in blocks.
 *
 * A process that holds all keys gives them in one block (gpt_attend). Where the sequence is split over processes, blocks
 * come one after the other in any order: begin, each block once, end. What is kept for the way back is the logarithm of
 * the sum of exponentials of each row (lse), and the output; the probabilities are computed again.
 *
 *   forward: for each block  m' = max(m, rowmax(s)), p = e^(s - m'), out = out e^(m - m') + p v, sum likewise
 *   back:    for each block  p = e^(s - lse), dv += p^T dout, ds = p (dout v^T - delta), dq += ds k, dk += ds^T q
 */
#ifndef GPT_NN_ATTENTION_H
#define GPT_NN_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>

/* Where row t of head h of sequence b lies: data + b * batch + t * row + h * head_width. */
struct gpt_rows {
    float *data;
    size_t batch, row;
};

struct gpt_attention {
    size_t batch, heads, head_width;
    size_t queries;  /* of each sequence */
    size_t position; /* of the first query; the others follow it */
    struct gpt_rows q, out;
    /* [batch][heads][queries] each; sum is used between begin and end, and for delta on the way back. */
    float *lse, *sum;
    size_t stride;  /* of lse and sum from head to head, where these are some of the queries; 0: queries */
    float *scratch; /* gpt_attention_scratch(most keys of a block) floats */
};

struct gpt_keys {
    size_t count; /* of each sequence */
    /* Of the first key; the others follow it. A query sees the keys up to its own position. */
    size_t position;
    struct gpt_rows k, v;
    bool turned; /* k lies the other way: row i of head h of sequence b has all keys' i-th elements, at
                    data + b * batch + (h * head_width + i) * row. Forward alone. */
};

size_t gpt_attention_scratch(size_t keys);

void gpt_attend_begin(const struct gpt_attention *a);
void gpt_attend_block(const struct gpt_attention *a, const struct gpt_keys *keys);
void gpt_attend_end(const struct gpt_attention *a);
/* All three, with one block. */
void gpt_attend(const struct gpt_attention *a, const struct gpt_keys *keys);

/* The way back: begin once, then each block once. dout is laid out as out; dq, dk and dv are added to. */
void gpt_attend_back_begin(const struct gpt_attention *a, struct gpt_rows dout);
void gpt_attend_back_block(const struct gpt_attention *a, const struct gpt_keys *keys, struct gpt_rows dout,
                           struct gpt_rows dq, struct gpt_rows dk, struct gpt_rows dv);

#endif
