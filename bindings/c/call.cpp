#include "c/call.hpp"

#include "json/simulate.hpp"

#include <phantora/version.hpp>

#include <cstdlib>
#include <new>

namespace phantora::bindings {
namespace {

/// Text that a failing thread can always keep: its memory may be what ran out.
thread_local std::string last_error;
thread_local const char* last_words = "";

phantora_status note(phantora_status status, const char* what) noexcept {
  try {
    last_error = what;
    last_words = last_error.c_str();
  } catch (...) {
    last_words = "out of memory";
  }
  return status;
}

}  // namespace

phantora_status note_exception() noexcept {
  try {
    throw;
  } catch (const ArgumentError& error) {
    return note(PHANTORA_INVALID_ARGUMENT, error.what());
  } catch (const ConfigError& error) {
    return note(PHANTORA_BAD_CONFIG, error.what());
  } catch (const TopologyError& error) {
    return note(PHANTORA_BAD_CONFIG, error.what());
  } catch (const CostError& error) {
    return note(PHANTORA_NO_COST, error.what());
  } catch (const RouteError& error) {
    return note(PHANTORA_NO_ROUTE, error.what());
  } catch (const Error& error) {
    return note(PHANTORA_FAILED, error.what());
  } catch (const std::bad_alloc&) {
    last_words = "out of memory";
    return PHANTORA_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    return note(PHANTORA_INTERNAL, error.what());
  } catch (...) {
    return note(PHANTORA_INTERNAL, "an exception of a kind that is not known");
  }
}

char* copy_of(std::string_view text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc{};
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return copy;
}

}  // namespace phantora::bindings

using namespace phantora::bindings;

const char* phantora_last_error() { return last_words; }
const char* phantora_version() { return PHANTORA_VERSION_STRING; }
void phantora_free(void* memory) { std::free(memory); }

phantora_status phantora_simulate_json(const char* request, char** response) {
  return call([&] {
    expect(response, "response");
    *response = copy_of(simulate(&expect(request, "request")));
  });
}
