/* errors.hpp - a failure of muster as the exception that PyTorch's users expect. */
#pragma once

#include <exception>
#include <muster/muster.h>
#include <string>
#include <vector>

namespace muster_torch {

/* The last failure of this thread as a DistBackendError. call: what the user called, such as "all_reduce". */
std::exception_ptr make_error(mst_status status, const std::string &call);

/* The same with a text of its own. */
std::exception_ptr make_error(const std::string &text, const std::string &call);

/* Of a call in a process that was forked from a rank. */
std::exception_ptr make_forked_error(const std::string &call);

/* Throws it unless status is MST_OK. */
void check(mst_status status, const std::string &call);

/* The ranks of the world that the last failure of this thread names as missing or as its cause. */
std::vector<int> blamed_ranks();

} // namespace muster_torch
