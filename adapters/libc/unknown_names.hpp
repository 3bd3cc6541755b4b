#pragma once

/// Names of NVIDIA's libraries that none of our export lists has: those of a release to come.
namespace phantora::libc {

/// Answers, before `file` is opened as dlopen would open it for code at `caller`, the names that it
/// and what it needs import of NVIDIA's libraries and that nobody defines. Each is a function that
/// says once that it was called and returns its library's "not supported".
void answer_unknown_names(const char* file, const void* caller);

}  // namespace phantora::libc
