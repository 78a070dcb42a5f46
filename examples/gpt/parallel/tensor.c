/* tensor.c - sums over the slices of a layer: on the way back one goes on while the weights' gradients are computed. */
#include "parallel/mesh.h"

int gpt_tensor_forward(void *parallel, float *x, size_t count) {
    struct gpt_parallel *p = parallel;
    double begin = gpt_now();
    mst_status st =
        mst_all_reduce(x, count, MST_F32, .group = p->group[GPT_TP], .deterministic = p->deterministic);
    p->waited += gpt_now() - begin;
    return gpt_check(st);
}

int gpt_tensor_backward(void *parallel, float *dx, size_t count) {
    struct gpt_parallel *p = parallel;
    double begin = gpt_now();
    mst_status st = mst_all_reduce(dx, count, MST_F32, .group = p->group[GPT_TP],
                                   .deterministic = p->deterministic, .work = &p->tensor_work);
    p->waited += gpt_now() - begin;
    return gpt_check(st);
}

int gpt_tensor_wait(void *parallel) {
    struct gpt_parallel *p = parallel;
    double begin = gpt_now();
    mst_status st = mst_wait(p->tensor_work);
    p->tensor_work = NULL;
    p->waited += gpt_now() - begin;
    return gpt_check(st);
}
