/* names.h - texts that programs name their calls with, kept for good: records refer to them. */
#ifndef MSI_PROF_RECORD_NAMES_H
#define MSI_PROF_RECORD_NAMES_H

/* The same copy for the same text. Beyond 4,096 of them all are "other"; NULL if there is no memory. Any thread. */
const char *msi_prof_keep(const char *text);

#endif
