/* version.h - the version of muster at compile time and at run time. */
#ifndef MUSTER_VERSION_H
#define MUSTER_VERSION_H

#define MST_VERSION_MAJOR  0
#define MST_VERSION_MINOR  2
#define MST_VERSION_PATCH  0
#define MST_VERSION_STRING "0.2.0"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the version of the loaded library as "major.minor.patch". */
const char *mst_version(void);

#ifdef __cplusplus
}
#endif
#endif
