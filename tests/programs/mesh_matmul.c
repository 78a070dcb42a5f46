/*
 * mesh_matmul.c - a layer of two matrix products on a mesh: data parallel times tensor parallel.
 *
 * Y = (X A) B. The rows of X are divided over dp, the columns of A and the rows of B over tp. Each rank
 * computes a partial product, and a sum over tp completes its rows of Y. For the loss sum(Y^2) / 2 the
 * gradient of B is (X A)^T Y. A sum over dp completes the rows of it that a tp rank has. All values are small
 * integers, so sums are exact in any order, and results must be equal to those of one process.
 */
#include "program.h"
#include <string.h>

enum { BATCH = 24, IN = 10, HIDDEN = 24, OUT = 6 }; /* BATCH and HIDDEN are divisible by 1, 2, 3, 4 and 8 */

static double x_value(int row, int k) {
    return (row * 5 + k * 3) % 7 - 3;
}
static double a_value(int k, int column) {
    return (k + column * 2) % 5 - 2;
}
static double b_value(int k, int column) {
    return (k * 3 + column) % 4 - 1;
}

/* A shard: rows of the batch, columns of the hidden layer. All of both is the sequential computation. */
struct shard {
    int row, rows, column, columns;
    double hidden[BATCH * HIDDEN], y[BATCH * OUT], gradient[HIDDEN * OUT]; /* of the shard, without gaps */
};

static void forward(struct shard *s) {
    for (int r = 0; r < s->rows; r++) {
        double *hidden = s->hidden + r * s->columns;
        for (int c = 0; c < s->columns; c++)
            for (int k = 0; k < IN; k++) hidden[c] += x_value(s->row + r, k) * a_value(k, s->column + c);
        for (int o = 0; o < OUT; o++)
            for (int c = 0; c < s->columns; c++) s->y[r * OUT + o] += hidden[c] * b_value(s->column + c, o);
    }
}

static void backward(struct shard *s) {
    for (int c = 0; c < s->columns; c++)
        for (int o = 0; o < OUT; o++)
            for (int r = 0; r < s->rows; r++)
                s->gradient[c * OUT + o] += s->hidden[r * s->columns + c] * s->y[r * OUT + o];
}

static void expect_equal(const double *result, const double *expected, int n, const char *name) {
    for (int i = 0; i < n; i++)
        expect(result[i] == expected[i], "%s[%d] is %.17g, not %.17g", name, i, result[i], expected[i]);
}

int main(void) {
    static struct shard all = {.rows = BATCH, .columns = HIDDEN}, s;
    static double y[BATCH * OUT], gradient[HIDDEN * OUT];
    check(mst_init());
    int size = mst_get_world_size(NULL), tp_size = size == 8 ? 4 : size % 2 == 0 ? 2 : size;
    int dp_size = size / tp_size, at[2];
    expect(BATCH % dp_size == 0 && HIDDEN % tp_size == 0, "the matrices are not divisible by %d", size);
    mst_mesh *mesh, *flat;
    mst_group *dp, *tp, *both;
    check(mst_init_device_mesh((int[]){dp_size, tp_size}, 2, (const char *const[]){"dp", "tp"}, &mesh));
    check(mst_mesh_get_group(mesh, "dp", &dp));
    check(mst_mesh_get_group(mesh, "tp", &tp));
    expect(mst_mesh_get_coordinate(mesh, at, 2) == 2, "the mesh has other dimensions");
    expect(mst_get_rank(dp) == at[0] && mst_get_rank(tp) == at[1], "coordinates %d, %d, group ranks %d, %d",
           at[0], at[1], mst_get_rank(dp), mst_get_rank(tp));

    s.rows = BATCH / dp_size, s.row = s.rows * at[0];
    s.columns = HIDDEN / tp_size, s.column = s.columns * at[1];
    forward(&all);
    backward(&all);

    /* The sum over tp completes the rows of Y on every rank of the row; over dp they are put together. */
    forward(&s);
    size_t y_count = (size_t)s.rows * OUT, gradient_count = (size_t)s.columns * OUT;
    check(mst_all_reduce(s.y, y_count, MST_F64, .group = tp));
    expect_equal(s.y, all.y + s.row * OUT, s.rows * OUT, "rows of Y");
    check(mst_all_gather_into_tensor(y, s.y, y_count, MST_F64, .group = dp));
    expect_equal(y, all.y, BATCH * OUT, "Y");

    /* The sum over dp completes the gradient of a shard of B. As in ZeRO, a dp rank may keep only a part. */
    backward(&s);
    size_t part = gradient_count / (size_t)dp_size;
    double *kept; /* the other ranks of the host access memory of mst_alloc in place */
    check(mst_alloc(part * sizeof *kept, &kept));
    check(mst_reduce_scatter_tensor(kept, s.gradient, part, MST_F64, .group = dp));
    expect_equal(kept, all.gradient + s.column * OUT + part * (size_t)at[0], (int)part,
                 "part of the gradient");
    check(mst_all_reduce(s.gradient, gradient_count, MST_F64, .group = dp));
    memcpy(gradient + s.column * OUT, s.gradient, gradient_count * sizeof *gradient);
    check(mst_all_gather_into_tensor(gradient, gradient + s.column * OUT, gradient_count, MST_F64,
                                     .group = tp));
    expect_equal(gradient, all.gradient, HIDDEN * OUT, "gradient");

    /* The last rank of each tp group has the loss of its rows. The sum goes over the whole mesh. */
    double loss = 0, expected = 0;
    for (size_t i = 0; i < y_count; i++) loss += s.y[i] * s.y[i] / 2;
    for (int i = 0; i < BATCH * OUT; i++) expected += all.y[i] * all.y[i] / 2;
    if (at[1] < tp_size - 1) loss = -1;
    check(mst_broadcast(&loss, 1, MST_F64, .root = tp_size - 1, .group = tp));
    check(mst_mesh_flatten(mesh, NULL, &flat));
    check(mst_mesh_get_group(flat, NULL, &both));
    check(mst_all_reduce(&loss, 1, MST_F64, .group = both));
    expect(loss == expected * tp_size, "the loss is %.17g, not %.17g", loss / tp_size, expected);

    mst_free(kept);
    check(mst_mesh_free(mesh));
    return finish("mesh_matmul");
}
