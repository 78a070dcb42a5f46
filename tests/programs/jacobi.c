/*
 * jacobi.c - the Laplace equation in two dimensions, solved by Jacobi iteration with halo exchange.
 *
 * The ranks form a grid, and each has a block of cells with a border of halo cells. In each iteration a rank
 * exchanges rows with the ranks above and below, in the group of its column of ranks, and columns with the
 * ranks at its left and right, in the group of its row. Peers are ranks in these groups. The iteration ends
 * when no cell of any rank has changed by more than a tolerance. One process must obtain the same cells, bit
 * for bit, in the same number of iterations.
 */
#include "program.h"
#include <math.h>

enum { N = 24, PITCH = N + 2, MAX_ITERATIONS = 400 };
#define TOLERANCE 1e-3

/* Rows 1 to rows and columns 1 to columns; the cells around them are halo or boundary. */
struct block {
    int row, column, rows, columns; /* row and column: position in the whole field */
    double cell[PITCH][PITCH], next[PITCH][PITCH];
};

/* The boundary is hot at the top and warm at the right. */
static void initialize(struct block *b) {
    for (int i = 0; i < b->rows + 2; i++)
        for (int j = 0; j < b->columns + 2; j++)
            b->cell[i][j] = b->row + i == 0 ? 100 : b->column + j == N + 1 ? 25.5 + b->row + i : 0;
}

/* One iteration; returns the largest change. */
static double sweep(struct block *b) {
    double change = 0;
    for (int i = 1; i <= b->rows; i++)
        for (int j = 1; j <= b->columns; j++) {
            b->next[i][j] =
                (b->cell[i - 1][j] + b->cell[i + 1][j] + b->cell[i][j - 1] + b->cell[i][j + 1]) / 4;
            change = fmax(change, fabs(b->next[i][j] - b->cell[i][j]));
        }
    for (int i = 1; i <= b->rows; i++)
        for (int j = 1; j <= b->columns; j++) b->cell[i][j] = b->next[i][j];
    return change;
}

/* Rows are contiguous: isend and irecv. A tag names the direction in which a message travels. */
static void exchange_rows(struct block *b, mst_group *group) {
    enum { UP = 1, DOWN };
    int me = mst_get_rank(group), last = mst_get_world_size(group) - 1, n = 0;
    size_t count = (size_t)b->columns;
    mst_work *works[4];
    if (me > 0) {
        check(mst_irecv(&b->cell[0][1], count, MST_F64, me - 1, .tag = DOWN, .group = group,
                        .work = &works[n++]));
        check(mst_isend(&b->cell[1][1], count, MST_F64, me - 1, .tag = UP, .group = group,
                        .work = &works[n++]));
    }
    if (me < last) {
        double *below = &b->cell[b->rows + 1][1], *lowest = &b->cell[b->rows][1];
        check(mst_irecv(below, count, MST_F64, me + 1, .tag = UP, .group = group, .work = &works[n++]));
        check(mst_isend(lowest, count, MST_F64, me + 1, .tag = DOWN, .group = group, .work = &works[n++]));
    }
    while (n > 0) check(mst_wait(works[--n]));
}

/* Columns are packed into buffers, and all messages start in one batch. */
static void exchange_columns(struct block *b, mst_group *group) {
    int me = mst_get_rank(group), peers[2] = {me - 1, me + 1 < mst_get_world_size(group) ? me + 1 : -1};
    int inner[2] = {1, b->columns}, halo[2] = {0, b->columns + 1};
    double out[2][N], in[2][N];
    mst_p2p messages[4];
    mst_work *works[4];
    size_t n = 0;
    for (int side = 0; side < 2; side++) {
        if (peers[side] < 0) continue;
        for (int i = 0; i < b->rows; i++) out[side][i] = b->cell[i + 1][inner[side]];
        mst_p2p message = {.count = (size_t)b->rows, .dtype = MST_F64, .peer = peers[side]};
        messages[n] = message;
        messages[n].send = true;
        messages[n++].buf = out[side];
        messages[n] = message;
        messages[n++].buf = in[side];
    }
    if (n == 0) return;
    check(mst_batch_isend_irecv(messages, n, works, .group = group));
    for (size_t i = 0; i < n; i++) check(mst_wait(works[i]));
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < b->rows && peers[side] >= 0; i++) b->cell[i + 1][halo[side]] = in[side][i];
}

int main(void) {
    static struct block b, all = {.rows = N, .columns = N};
    check(mst_init());
    int size = mst_get_world_size(NULL), columns = size == 8 ? 4 : size % 2 == 0 ? 2 : 1, at[2];
    int rows = size / columns, iterations = 0, expected = 0;
    mst_mesh *mesh;
    mst_group *in_column, *in_row;
    check(mst_init_device_mesh((int[]){rows, columns}, 2, (const char *const[]){"y", "x"}, &mesh));
    check(mst_mesh_get_group(mesh, "y", &in_column));
    check(mst_mesh_get_group(mesh, "x", &in_row));
    expect(mst_mesh_get_coordinate(mesh, at, 2) == 2, "the mesh has other dimensions");
    b.row = N * at[0] / rows, b.rows = N * (at[0] + 1) / rows - b.row;
    b.column = N * at[1] / columns, b.columns = N * (at[1] + 1) / columns - b.column;

    initialize(&b);
    for (double change = INFINITY; change > TOLERANCE && iterations < MAX_ITERATIONS; iterations++) {
        exchange_rows(&b, in_column);
        exchange_columns(&b, in_row);
        change = sweep(&b);
        check(mst_all_reduce(&change, 1, MST_F64, .op = MST_MAX));
    }

    initialize(&all);
    for (double change = INFINITY; change > TOLERANCE && expected < MAX_ITERATIONS; expected++)
        change = sweep(&all);
    expect(iterations == expected, "%d iterations, not %d", iterations, expected);
    for (int i = 1; i <= b.rows; i++)
        for (int j = 1; j <= b.columns; j++)
            expect(b.cell[i][j] == all.cell[b.row + i][b.column + j], "cell %d,%d is %.17g, not %.17g",
                   b.row + i, b.column + j, b.cell[i][j], all.cell[b.row + i][b.column + j]);
    check(mst_mesh_free(mesh));
    return finish("jacobi");
}
