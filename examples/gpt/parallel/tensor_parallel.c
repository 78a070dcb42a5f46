/*
 * tensor_parallel.c - all-reduces over the slices of a layer. In the backward pass the all-reduce of the
 * input's gradient overlaps with the computation of the weights' gradients.
 */
#include "parallel/mesh.h"

int gpt_tp_reduce_forward(void *context, float *x, size_t count) {
    struct gpt_mesh *mesh = context;
    double begin = gpt_now();
    mst_status st =
        mst_all_reduce(x, count, MST_F32, .group = mesh->group[GPT_TP], .deterministic = mesh->deterministic);
    mesh->comm_seconds += gpt_now() - begin;
    return gpt_check(st);
}

int gpt_tp_reduce_backward(void *context, float *dx, size_t count) {
    struct gpt_mesh *mesh = context;
    double begin = gpt_now();
    mst_status st = mst_all_reduce(dx, count, MST_F32, .group = mesh->group[GPT_TP],
                                   .deterministic = mesh->deterministic, .work = &mesh->tp_work);
    mesh->comm_seconds += gpt_now() - begin;
    return gpt_check(st);
}

int gpt_tp_wait_backward(void *context) {
    struct gpt_mesh *mesh = context;
    double begin = gpt_now();
    mst_status st = mst_wait(mesh->tp_work);
    mesh->tp_work = NULL;
    mesh->comm_seconds += gpt_now() - begin;
    return gpt_check(st);
}
