/* errors.cpp - see errors.hpp. Programs search messages for gloo's phrases, so these are part of them. */
#include "errors.hpp"

#include <c10/util/Exception.h>

namespace muster_torch {

static const char *phrase(mst_status status) {
    switch (status) {
    case MST_ERR_TIMEOUT:
    case MST_ERR_STALLED:
    case MST_ERR_MISSING_RANK:
        return "Timed out waiting for other ranks: ";
    case MST_ERR_PEER_LOST:
        return "Connection closed by peer: ";
    default:
        return "";
    }
}

std::exception_ptr make_error(const std::string &text, const std::string &call) {
    try {
        C10_THROW_ERROR(DistBackendError, "[muster] " + call + ": " + text);
    } catch (...) {
        return std::current_exception();
    }
}

std::exception_ptr make_error(mst_status status, const std::string &call) {
    return make_error(std::string(phrase(status)) + mst_error(), call);
}

std::exception_ptr make_forked_error(const std::string &call) {
    return make_error("this process was forked after the process group was made; it is not a rank of it",
                      call);
}

void check(mst_status status, const std::string &call) {
    if (status != MST_OK) std::rethrow_exception(make_error(status, call));
}

std::vector<int> blamed_ranks() {
    const mst_error_info *info = mst_last_error();
    std::vector<int> ranks(info->missing, info->missing + info->n_missing);
    if (ranks.empty() && info->culprit >= 0) ranks.push_back(info->culprit);
    return ranks;
}

} // namespace muster_torch
