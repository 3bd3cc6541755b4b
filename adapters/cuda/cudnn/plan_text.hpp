#pragma once

#include "cuda/cudnn/backend.hpp"

#include <string>
#include <string_view>

/// Execution plans as text, as cudnn-frontend keeps them and hands them to other processes.
namespace phantora::cudnn {

/// The configuration of a plan's engine, with the graph that it runs, as JSON.
std::string text_of(const Reference& configuration);

/// The same back; nullptr if the text is not of text_of().
Reference configuration_of(std::string_view text);

}  // namespace phantora::cudnn
