"""The cases of tests/misuse/misuse.c with several ranks that the library does not meet yet, by layout.

The columns are layouts: a letter for the host of each rank; _cold: the ranks are not connected before. A cell is

  -       the results are as required
  late    MST_OK on ranks that do not wait for the odd rank; their next call returns MST_ERR_MISMATCH
  text    as required or late, but an error lacks the rank, its call, or the reason
  silent  MST_OK on all ranks whose call is valid; the next call may fail
  stalls  MST_ERR_STALLED or MST_ERR_TIMEOUT on a rank
  fails   something else, or different ones of these
  varies  depends on which rank is first, so that the test requires nothing

By default the driver judges the cells with '-' alone. With MISUSE_ALL=1, each cell that does not describe the results is
an error, also if they are better: replace it when the library improves.
A layout stands for several runs: blocking calls, calls with .work, rank ODD calls first or last, without a launcher.
"""

TABLE = """
case                                aa        aaa       ab        abc       abc_cold  aabb      aabb_cold
reduce_among_all_reduce             late      late      late      text      text      text      stalls
all_reduce_among_reduce             -         late      -         text      text      late      late
large_reduce_among_all_reduce       -         -         -         -         -         -         stalls
gather_among_scatter                silent    silent    silent    silent    silent    silent    silent
scatter_among_gather                -         late      stalls    stalls    stalls    stalls    stalls
large_gather_among_scatter          stalls    stalls    silent    silent    silent    late      late
broadcast_among_all_reduce          -         -         -         -         stalls    -         stalls
broadcast_among_reduce              -         late      stalls    stalls    stalls    stalls    stalls
broadcast_among_gather              -         late      stalls    stalls    stalls    stalls    stalls
broadcast_among_scatter             late      text      late      late      stalls    late      late
all_gather_among_reduce_scatter     -         -         -         -         -         stalls    stalls
all_gather_among_gather             -         late      -         text      text      late      late
two_calls_in_other_order            -         late      -         text      stalls    text      late
one_call_left_out                   -         -         -         varies    text      varies    text
barrier_among_all_reduce            -         -         -         -         -         -         stalls
barrier_among_broadcast             late      text      late      late      late      late      late
barrier_among_broadcast_from_it     -         -         -         -         -         stalls    stalls
barrier_among_reduce                -         late      -         text      text      late      late
barrier_among_gather                -         late      -         text      text      late      late
barrier_among_scatter               late      text      late      late      late      late      late
barrier_among_all_gather            -         -         -         -         -         -         stalls
barrier_among_reduce_scatter        -         -         -         -         -         stalls    stalls
barrier_among_all_to_all            -         -         -         -         -         stalls    stalls
barrier_among_large_all_reduce      -         -         -         -         -         -         stalls
broadcast_among_barriers            late      late      late      late      late      text      text
reduce_among_barriers               late      late      late      text      text      text      late
scatter_among_barriers              -         -         -         -         stalls    -         -
monitored_barrier_among_barriers    silent    silent    fails     fails     stalls    fails     stalls
all_reduce_among_monitored_barriers -         -         varies    varies    stalls    varies    stalls
two_broadcast_roots                 silent    silent    silent    silent    silent    silent    silent
two_large_broadcast_roots           stalls    stalls    silent    late      late      late      late
every_rank_a_broadcast_root         silent    silent    silent    silent    silent    late      late
no_broadcast_root                   -         -         stalls    stalls    stalls    stalls    stalls
two_reduce_roots                    -         late      stalls    late      late      stalls    stalls
two_gather_roots                    -         late      stalls    late      late      stalls    stalls
two_scatter_roots                   silent    silent    silent    silent    silent    silent    silent
no_scatter_root                     -         -         stalls    stalls    stalls    stalls    stalls
all_reduce_of_nothing               -         -         text      text      text      text      stalls
broadcast_counts                    late      text      late      late      stalls    late      late
broadcast_counts_of_root            late      late      late      late      late      late      stalls
large_broadcast_counts              -         -         varies    varies    late      -         -
reduce_counts                       late      late      late      late      late      late      late
gather_counts                       late      late      late      late      late      late      late
scatter_counts                      late      text      late      late      stalls    late      late
coalesced_counts                    text      text      text      text      text      text      text
coalesced_tensors                   text      text      text      text      text      text      text
broadcast_dtypes                    late      text      late      late      stalls    late      late
reduce_dtypes                       late      late      late      late      late      late      late
gather_dtypes                       late      late      late      late      late      late      late
scatter_dtypes                      late      text      late      late      stalls    late      late
reduce_ops                          late      late      late      late      late      late      late
deterministic_on_one_rank           silent    silent    silent    silent    silent    stalls    stalls
broadcast_bytes_among_broadcast     text      text      text      text      stalls    text      text
broadcast_among_broadcast_bytes     silent    silent    silent    silent    silent    silent    silent
all_gather_bytes_among_all_gather   text      text      silent    silent    silent    silent    silent
gather_bytes_among_gather           text      text      text      text      text      text      text
scatter_bytes_among_scatter         text      text      silent    silent    silent    silent    silent
gather_bytes_among_all_gather_bytes text      text      silent    text      text      stalls    stalls
barrier_among_broadcast_bytes       text      text      text      text      text      text      text
barrier_among_gather_bytes          text      text      text      text      text      text      stalls
two_broadcast_bytes_roots           silent    silent    silent    silent    silent    silent    silent
two_gather_bytes_roots              text      text      stalls    text      text      stalls    stalls
two_scatter_bytes_roots             text      text      silent    silent    silent    silent    silent
sends_too_much                      late      late      silent    silent    silent    silent    silent
sends_too_little                    late      late      stalls    stalls    stalls    stalls    stalls
sends_nothing                       late      late      late      late      late      late      late
sends_far_too_much                  -         late      silent    fails     silent    text      text
expects_too_much                    late      text      stalls    stalls    stalls    stalls    stalls
expects_too_little                  late      text      silent    silent    silent    silent    silent
expects_nothing                     late      text      silent    silent    silent    silent    silent
list_splits                         late      late      silent    silent    silent    silent    silent
dtype_of_all_reduce                 text      text      text      text      text      text      stalls
null_buffer_of_all_reduce           text      text      text      text      text      text      stalls
op_of_all_reduce                    text      text      text      text      text      text      stalls
count_of_large_all_reduce           text      text      text      text      text      text      stalls
overlap_of_all_reduce               text      text      text      text      text      text      stalls
null_buffer_of_broadcast            silent    silent    silent    silent    silent    silent    silent
null_buffer_of_broadcast_root       text      text      text      text      text      stalls    stalls
root_of_broadcast                   silent    silent    silent    silent    silent    silent    silent
root_of_reduce                      text      text      text      text      text      text      text
op_of_barrier                       stalls    stalls    stalls    stalls    stalls    stalls    stalls
timeout_of_barrier                  stalls    stalls    stalls    stalls    stalls    stalls    stalls
timeout_of_monitored_barrier        stalls    stalls    stalls    stalls    stalls    stalls    stalls
tag_of_all_gather                   text      text      text      text      text      text      stalls
null_list_of_all_gather             text      text      text      text      text      text      stalls
overlap_of_reduce_scatter           text      text      text      text      text      stalls    stalls
null_input_of_gather                text      text      text      text      text      text      text
null_output_of_gather_root          silent    silent    silent    silent    silent    stalls    stalls
null_output_of_scatter              silent    silent    silent    silent    silent    silent    silent
null_input_of_scatter_root          text      text      text      text      text      stalls    stalls
one_kind_of_splits                  text      text      text      text      text      stalls    stalls
splits_for_itself                   text      text      text      text      text      stalls    stalls
null_counts_of_coalesced            text      text      text      text      text      text      stalls
second_tensor_of_coalesced          text      text      text      text      text      text      text
null_output_of_broadcast_bytes      silent    silent    silent    silent    silent    silent    silent
null_input_of_all_gather_bytes      text      text      text      text      text      text      stalls
root_of_gather_bytes                text      text      text      text      text      text      stalls
null_input_of_scatter_bytes_root    text      text      text      text      text      stalls    stalls
work_of_broadcast_bytes             silent    silent    silent    silent    silent    silent    silent
corrected_all_reduce                silent    silent    silent    silent    silent    silent    silent
"""

HOLDS, LATE_CELL, TEXT, VARIES = "-", "late", "text", "varies"


def read(table):
    lines = [line.split() for line in table.splitlines() if line]
    return {row[0]: dict(zip(lines[0][1:], row[1:], strict=True)) for row in lines[1:]}


EXPECTED_TO_FAIL = read(TABLE)


def expected_of(case, column):
    return EXPECTED_TO_FAIL.get(case, {}).get(column, HOLDS)
