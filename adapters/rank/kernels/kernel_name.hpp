#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// Reads C++ names as abi::__cxa_demangle, cu++filt and CUPTI print them (they agree: every PyTorch
/// kernel name in a CUPTI trace of an H200 is the demangled name in the wheel).
namespace phantora::rank {

/// The demangled signature; `mangled` itself when it is not a C++ name.
std::string demangled(const char* mangled);

/// Parts of a name, with an empty one wherever there is none: kernels are the program's, and one
/// may bear a name that we know, with fewer arguments.
class NameParts : public std::vector<std::string_view> {
 public:
  using vector::vector;
  std::string_view operator[](std::size_t i) const { return i < size() ? data()[i] : ""; }
  [[nodiscard]] std::string_view front() const { return (*this)[0]; }
  [[nodiscard]] std::string_view back() const { return empty() ? "" : data()[size() - 1]; }
};

/// A name with template arguments, e.g. "at::native::FillFunctor<float>".
struct TemplateName {
  std::string_view name;  ///< without arguments: "at::native::FillFunctor"
  NameParts arguments;    ///< "float"
};
/// Reads a type or a function's name, without parameter list.
TemplateName template_name(std::string_view text);

/// A kernel's signature: "void f<float>(int, float*)".
struct Signature {
  TemplateName kernel;
  NameParts parameters;
};
Signature signature(std::string_view text);

/// A template argument that is a number: 3 of "3ul"; 0 where none is.
std::size_t number_in(std::string_view argument);

/// The last component: "FillFunctor" of "at::native::FillFunctor".
std::string_view unqualified(std::string_view name);

/// A lambda: "at::native::f<float>(int)::{lambda()#2}::operator()() const::{lambda(float)#1}".
struct LambdaName {
  TemplateName function;  ///< that it is written in: "at::native::f", "float"
  std::vector<int> path;  ///< numbers of the lambdas, outermost first: 2, 1
  NameParts parameters;   ///< of the innermost: "float"
};
/// `function.name` is empty when `text` is not a lambda.
LambdaName lambda_name(std::string_view text);

}  // namespace phantora::rank
