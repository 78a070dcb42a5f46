/*
 * trace_file.h - the file of a trace: events as lines of an array, which gather in a buffer. Where the disk is full the file ends with a
 * whole event, unless it cannot even be cut.
 */
#ifndef MSI_PROF_TRACE_TRACE_FILE_H
#define MSI_PROF_TRACE_TRACE_FILE_H

#include "base/json.h"

#include <sys/types.h>

struct msi_trace_file {
    int fd;
    off_t written;     /* bytes of whole events, … */
    uint64_t complete; /* … and how many these are */
    uint64_t events;   /* with those in the buffer */
    struct msi_buf buf;
    char path[4096 + 64];
};

/* Makes a file for that rank's trace, under the first name that is free, and the directory, too. 0, or an error of the system. */
int msi_trace_file_open(struct msi_trace_file *file, const char *directory, int rank);
/* The beginning of an object, one more event; the caller ends it. */
struct msi_json_out msi_trace_file_event(struct msi_trace_file *file);
/* Empties the buffer into the file, or, with an error of the system, drops it and leaves the file as it was. */
int msi_trace_file_write(struct msi_trace_file *file);
/* Ends the array. */
int msi_trace_file_end(struct msi_trace_file *file);
/* Closes the file; kept false: as if it had not been opened. */
void msi_trace_file_close(struct msi_trace_file *file, bool kept);

#endif
