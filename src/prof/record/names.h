/*
 * names.h - copies of the names that programs give to their calls, kept for the life of the process: records
 * point to them.
 */
#ifndef MSI_PROF_RECORD_NAMES_H
#define MSI_PROF_RECORD_NAMES_H

/*
 * Equal texts get the same copy. "other" after 4,096 names; NULL without memory. Any thread; takes no lock
 * for a known name.
 */
const char *msi_prof_keep(const char *text);

#endif
