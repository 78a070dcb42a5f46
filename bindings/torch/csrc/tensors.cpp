/* tensors.cpp - see tensors.hpp. */
#include "tensors.hpp"

namespace muster_torch {

static mst_dtype find_dtype(at::ScalarType type) {
    switch (type) {
    case at::kDouble:
        return MST_F64;
    case at::kFloat:
        return MST_F32;
    case at::kHalf:
        return MST_F16;
    case at::kBFloat16:
        return MST_BF16;
    case at::kFloat8_e4m3fn:
        return MST_F8E4M3;
    case at::kFloat8_e5m2:
        return MST_F8E5M2;
    case at::kChar:
        return MST_I8;
    case at::kByte:
        return MST_U8;
    case at::kShort:
        return MST_I16;
    case at::kUInt16:
        return MST_U16;
    case at::kInt:
        return MST_I32;
    case at::kUInt32:
        return MST_U32;
    case at::kLong:
        return MST_I64;
    case at::kUInt64:
        return MST_U64;
    case at::kBool:
        return MST_BOOL;
    case at::kComplexFloat:
        return MST_C64;
    case at::kComplexDouble:
        return MST_C128;
    default:
        return static_cast<mst_dtype>(0);
    }
}

mst_dtype dtype_of(const at::Tensor &tensor) {
    if (mst_dtype dtype = find_dtype(tensor.scalar_type())) return dtype;
    switch (tensor.element_size()) {
    case 1:
        return MST_BITS8;
    case 2:
        return MST_BITS16;
    case 4:
        return MST_BITS32;
    case 8:
        return MST_BITS64;
    default:
        return MST_BITS128;
    }
}

mst_dtype reduced_dtype_of(const at::Tensor &tensor) {
    mst_dtype dtype = find_dtype(tensor.scalar_type());
    TORCH_CHECK_TYPE(dtype, "[muster] tensors of ", tensor.scalar_type(), " cannot be reduced");
    return dtype;
}

void set_reduction(const c10d::ReduceOp &op, mst_call *call) {
    TORCH_CHECK(op.op_ <= c10d::ReduceOp::PREMUL_SUM, "[muster] this reduction is not supported");
    call->op = static_cast<mst_op>(op.op_); // the numbers are the same
    if (op.op_ != c10d::ReduceOp::PREMUL_SUM) return;
    const auto *factor = reinterpret_cast<const c10d::NCCLPreMulSumSupplement *>(op.supplement_.get());
    call->factor =
        factor->tensor_factor.defined() ? factor->tensor_factor.item<double>() : factor->double_factor;
}

void check_tensors(const std::vector<at::Tensor> &tensors, const char *call) {
    for (const auto &tensor : tensors) {
        TORCH_CHECK(!tensor.is_meta(), "[muster] ", call, ": the tensor is on ", tensor.device());
        TORCH_CHECK(tensor.layout() == at::kStrided, "[muster] ", call, ": the tensor is sparse");
    }
}

std::vector<void *> addresses(const std::vector<at::Tensor> &tensors) {
    std::vector<void *> list;
    list.reserve(tensors.size());
    for (const auto &tensor : tensors) list.push_back(tensor.data_ptr());
    return list;
}

} // namespace muster_torch
