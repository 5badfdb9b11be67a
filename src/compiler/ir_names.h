// Names of the IR that passes and planner use in nearly every file.
#pragma once

#include "ir/module/module.h"
#include "ir/module/op.h"

namespace cugrt::passes {
using ir::Binding;
using ir::BindingKind;
using ir::BindingWork;
using ir::DType;
using ir::ExprId;
using ir::Op;
using ir::Operand;
using ir::TypeId;
using ir::ValueId;
} // namespace cugrt::passes

namespace cugrt::plan {
using ir::Binding;
using ir::BindingKind;
using ir::BindingWork;
using ir::ExprId;
using ir::Operand;
using ir::TypeId;
using ir::TypeKind;
using ir::ValueId;
} // namespace cugrt::plan
