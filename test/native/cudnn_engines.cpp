// cuDNN's engines, configured by the program itself (as XLA does) and not by a heuristic.
#include "expect.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <cudnn.h>

namespace {

using Handle = cudnnBackendDescriptor_t;

Handle make(cudnnBackendDescriptorType_t type) {
  Handle made = nullptr;
  WORKS(cudnnBackendCreateDescriptor(type, &made));
  return made;
}

template <class T>
void set(Handle descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
         const std::vector<T>& values) {
  WORKS(cudnnBackendSetAttribute(descriptor, name, type, static_cast<std::int64_t>(values.size()),
                                 values.data()));
}

/// A channels-last tensor of N, C, H, W.
Handle tensor(std::int64_t id, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  const Handle made = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  set(made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_HALF});
  set(made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::vector{n, c, h, w});
  set(made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64,
      std::vector{h * w * c, std::int64_t{1}, w * c, c});
  set(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, std::vector{id});
  set(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, std::vector<std::int64_t>{16});
  WORKS(cudnnBackendFinalize(made));
  return made;
}

Handle convolution() {
  using Numbers = std::vector<std::int64_t>;
  const Handle made = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  set(made, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT});
  set(made, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
      std::vector{CUDNN_CROSS_CORRELATION});
  set(made, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, Numbers{2});
  set(made, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, Numbers{1, 1});
  set(made, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, Numbers{1, 1});
  set(made, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, Numbers{1, 1});
  set(made, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, Numbers{1, 1});
  WORKS(cudnnBackendFinalize(made));
  return made;
}

Handle graph(cudnnHandle_t cudnn) {
  const Handle operation = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  const auto refer = [&](cudnnBackendAttributeName_t name, Handle to) {
    set(operation, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector{to});
  };
  refer(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, tensor('x', 8, 64, 32, 32));
  refer(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, tensor('w', 64, 64, 3, 3));
  refer(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, tensor('y', 8, 64, 32, 32));
  refer(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, convolution());
  set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT,
      std::vector{1.0F});
  set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT,
      std::vector{0.0F});
  WORKS(cudnnBackendFinalize(operation));
  const Handle made = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set(made, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, std::vector{cudnn});
  set(made, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector{operation});
  WORKS(cudnnBackendFinalize(made));
  return made;
}

std::int64_t count_of(Handle descriptor, cudnnBackendAttributeName_t name) {
  std::int64_t count = -1;
  WORKS(cudnnBackendGetAttribute(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count,
                                 nullptr));
  return count;
}

std::int64_t workspace_of(Handle plan) {
  std::int64_t bytes = -1, count = 0;
  WORKS(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                 1, &count, &bytes));
  return bytes;
}

/// A plan of that text.
cudnnStatus_t finalize(cudnnHandle_t cudnn, const std::string& text, Handle& plan) {
  plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, std::vector{cudnn});
  set(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
      std::vector<char>(text.begin(), text.end()));
  return cudnnBackendFinalize(plan);
}

/// A plan is written, and another made of what was written, as other processes do.
void as_text(cudnnHandle_t cudnn, Handle plan) {
  std::int64_t count = 0;
  WORKS(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                 CUDNN_TYPE_CHAR, 0, &count, nullptr));
  std::string text(static_cast<std::size_t>(count), ' ');
  WORKS(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                 CUDNN_TYPE_CHAR, count, &count, text.data()));
  EXPECT(text.size() > 100 && text.back() == '\0');
  Handle again = nullptr;
  WORKS(finalize(cudnn, text, again));
  EXPECT(workspace_of(again) == workspace_of(plan));
  text.pop_back();  // frontends may leave the end of the string out
  WORKS(finalize(cudnn, text, again));

  // What is no plan's text.
  for (std::size_t length = 1; length < text.size(); length += 7) {
    EXPECT_STATUS(CUDNN_STATUS_BAD_PARAM, finalize(cudnn, text.substr(0, length), again));
  }
  for (
      const char* wrong :
      {"{}", "[]", "7", R"({"phantora_plan":2,"configuration":0,"descriptors":[]})",
       R"({"phantora_plan":1,"configuration":0,"descriptors":[]})",
       R"({"phantora_plan":1,"configuration":0,"descriptors":[{"type":1,"tried":false,"attributes":[
            {"name":1,"type":15,"count":1,"values":[0]}]}]})",
       R"({"phantora_plan":1,"configuration":0,"descriptors":[{"type":1,"tried":false,"attributes":[
            {"name":1,"type":0,"count":9,"values":[0]}]}]})"}) {
    EXPECT_STATUS(CUDNN_STATUS_BAD_PARAM, finalize(cudnn, wrong, again));
  }
}

void own_configuration(cudnnHandle_t cudnn) {
  const Handle engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  set(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR,
      std::vector{graph(cudnn)});
  set(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, std::vector<std::int64_t>{0});
  WORKS(cudnnBackendFinalize(engine));
  const Handle configuration = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  set(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
      std::vector{engine});
  WORKS(cudnnBackendFinalize(configuration));
  const Handle plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, std::vector{cudnn});
  set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR,
      std::vector{configuration});
  WORKS(cudnnBackendFinalize(plan));

  // What the plan's engine was told: nothing, in so many words.
  Handle told = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  std::int64_t count = 0;
  WORKS(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &told));
  EXPECT(count == 1);
  EXPECT(count_of(told, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES) == 0);
  EXPECT(count_of(told, CUDNN_ATTR_ENGINECFG_INTERMEDIATE_INFO) == 0);
  as_text(cudnn, plan);
}

}  // namespace

int main() {
  WORKS(cudnnAdvVersionCheck());
  WORKS(cudnnCnnVersionCheck());
  WORKS(cudnnGraphVersionCheck());
  WORKS(cudnnOpsVersionCheck());
  cudnnHandle_t cudnn = nullptr;
  WORKS(cudnnCreate(&cudnn));
  own_configuration(cudnn);
  return failures != 0;
}
