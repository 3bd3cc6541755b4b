#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Reads C++ names as abi::__cxa_demangle, cu++filt and CUPTI print them (they agree: every PyTorch
/// kernel name in a CUPTI trace of an H200 is the demangled name in the wheel).
namespace phantora::rank {

/// The demangled signature; `mangled` itself when it is not a C++ name.
std::string demangled(const char* mangled);

/// A name with template arguments, e.g. "at::native::FillFunctor<float>".
struct TemplateName {
  std::string_view name;                    ///< without arguments: "at::native::FillFunctor"
  std::vector<std::string_view> arguments;  ///< "float"
};
/// Reads a type or a function's name, without parameter list.
TemplateName template_name(std::string_view text);

/// A kernel's signature: "void f<float>(int, float*)".
struct Signature {
  TemplateName kernel;
  std::vector<std::string_view> parameters;
};
Signature signature(std::string_view text);

/// The last component: "FillFunctor" of "at::native::FillFunctor".
std::string_view unqualified(std::string_view name);

/// A lambda: "at::native::f<float>(int)::{lambda()#2}::operator()() const::{lambda(float)#1}".
struct LambdaName {
  TemplateName function;                     ///< that it is written in: "at::native::f", "float"
  std::vector<int> path;                     ///< numbers of the lambdas, outermost first: 2, 1
  std::vector<std::string_view> parameters;  ///< of the innermost: "float"
};
/// `function.name` is empty when `text` is not a lambda.
LambdaName lambda_name(std::string_view text);

}  // namespace phantora::rank
