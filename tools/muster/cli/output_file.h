/*
 * output_file.h - an output file that appears as a whole at commit, or not at all. Until then it has a
 * temporary name; a file that was not committed is deleted when the program exits. One file at a time.
 */
#ifndef MUSTER_TOOL_CLI_OUTPUT_FILE_H
#define MUSTER_TOOL_CLI_OUTPUT_FILE_H

#include <muster/types.h>
#include <stdio.h>

/* Fails if another user has made file, directory or a link of that name in a directory such as /tmp. */
mst_status output_file_check(const char *path);
/* "-" is standard output. An existing special file, such as /dev/stdout, is written directly. */
mst_status output_file_open(const char *path, FILE **file);
/* Closes the file. */
mst_status output_file_commit(FILE *file, const char *path);

#endif
