find_package(Python3 REQUIRED COMPONENTS Interpreter)

# Native programs that jobs run.
add_executable(phantora_test_waits programs/waits.cpp)
target_link_libraries(phantora_test_waits PRIVATE phantora_options ${CMAKE_DL_LIBS})
add_executable(phantora_test_allocator programs/allocator.cpp)
target_link_libraries(phantora_test_allocator PRIVATE phantora_options ${CMAKE_DL_LIBS})
foreach(program blocking memory_pollers stalling)
  add_executable(phantora_test_${program} programs/${program}.cpp)
  target_link_libraries(phantora_test_${program} PRIVATE phantora_options ${CMAKE_DL_LIBS})
endforeach()
add_executable(phantora_test_origin programs/origin_main.cpp)
target_link_libraries(phantora_test_origin PRIVATE phantora_options ${CMAKE_DL_LIBS})
# The library lies apart from its neighbour and from the program, and knows where that is only by
# its own RUNPATH.
add_library(phantora_test_library SHARED programs/origin_library.cpp)
target_link_libraries(phantora_test_library PRIVATE phantora_options ${CMAKE_DL_LIBS})
set_target_properties(phantora_test_library PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/origin
  BUILD_RPATH_USE_ORIGIN ON BUILD_RPATH "$ORIGIN/neighbour")
add_library(phantora_test_neighbour SHARED programs/origin_neighbour.cpp)
set_target_properties(phantora_test_neighbour PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/origin/neighbour)
add_dependencies(phantora_test_library phantora_test_neighbour)

set(job_environment
  PHANTORA=$<TARGET_FILE:phantora_program>
  PHANTORA_PYTHON=${PROJECT_SOURCE_DIR}/build/venv/bin/python
  PHANTORA_WAITS=$<TARGET_FILE:phantora_test_waits>
  PHANTORA_ALLOCATOR=$<TARGET_FILE:phantora_test_allocator>
  PHANTORA_BLOCKING=$<TARGET_FILE:phantora_test_blocking>
  PHANTORA_MEMORY_POLLERS=$<TARGET_FILE:phantora_test_memory_pollers>
  PHANTORA_STALLING=$<TARGET_FILE:phantora_test_stalling>
  PHANTORA_ORIGIN_MAIN=$<TARGET_FILE:phantora_test_origin>
  PHANTORA_ORIGIN_LIBRARY=$<TARGET_FILE:phantora_test_library>)

include(jobs/invented.cmake)
include(jobs/static_runtime.cmake)

# phantora_jobs(FILE CLASSES... [TORCH] [HEAVY] [TIMEOUT s]) registers each unittest class of
# test/jobs/FILE_test.py as a test. Jobs run one at a time: each uses every core.
function(phantora_jobs file)
  cmake_parse_arguments(arg "TORCH;HEAVY" "TIMEOUT" "" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  set(labels jobs)
  if(arg_TORCH)
    list(APPEND labels torch)
  endif()
  if(arg_HEAVY)
    list(APPEND labels heavy)
  endif()
  foreach(class IN LISTS arg_UNPARSED_ARGUMENTS)
    add_test(NAME jobs.${file}.${class}
      COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/jobs/${file}_test.py ${class})
    set_tests_properties(jobs.${file}.${class} PROPERTIES
      LABELS "${labels}" TIMEOUT ${arg_TIMEOUT} RUN_SERIAL TRUE ENVIRONMENT "${job_environment}")
  endforeach()
endfunction()

phantora_jobs(measure Without)
phantora_jobs(measure Measure TORCH)
phantora_jobs(measure OneRank TORCH)
phantora_jobs(failure DyingRank MissingRank OutOfMemory BadArguments PartialReports Stopped)
phantora_jobs(output Lines Readers)
phantora_jobs(failure OutOfMemoryInTorch StoppedTorch TORCH)
phantora_jobs(program Programs Hosts SharedMemory Starts Libraries)
phantora_jobs(topology Topologies)
phantora_jobs(convert Convert)
phantora_jobs(nccl Communicators)
phantora_jobs(helpers Helpers Ahead)
phantora_jobs(library_versions LibraryVersions)
phantora_jobs(helpers Loaders TORCH)
phantora_jobs(mixed Mixed)
phantora_jobs(mixed MixedTorch TORCH)
phantora_jobs(unknown_names UnknownNames Releases DriverLog)
phantora_jobs(static_runtime StaticRuntime)
phantora_jobs(wheels Wheels)
phantora_jobs(program Torchrun DataLoading Compiled Nvrtc SymmetricMemory TORCH)
phantora_jobs(time Clocks NativeWaits FrontEnd Pinged Allocator BusyThread)
phantora_jobs(time Recurrent Unequal TORCH)
phantora_jobs(time UnequalOften TORCH HEAVY TIMEOUT 1200)
phantora_jobs(waits Waits Stalls RanksThatWaitForRanks Outside ParentOfRanks MemoryPollers SpinningRanks
              ManyAtOnce)
phantora_jobs(waits SilentSpin HEAVY)
phantora_jobs(values SmallValues Selections DistributedValues TORCH)
phantora_jobs(values UnknownValues Routing TORCH HEAVY)
phantora_jobs(trials Trials TORCH)
phantora_jobs(graphs Capture Construction)
phantora_jobs(graphs GraphsTorch TORCH)
phantora_jobs(profiler Profiles TORCH)
phantora_jobs(smi Smi Nvml)
phantora_jobs(replay Replays)
phantora_jobs(shown_report ShownReport)
phantora_jobs(doctor Doctor)
phantora_jobs(doctor DoctorTorch TORCH)
phantora_jobs(host Host)
phantora_jobs(replay ReplaysTorch TORCH)
phantora_jobs(report NamedRanges)
phantora_jobs(report Consistency Cadence StepMarker Doubts TORCH)
phantora_jobs(frameworks Frameworks BillionParameters TORCH HEAVY TIMEOUT 1800)
# Each makes an environment with another torch in build/ when it first runs (0.5 GB to fetch, 2 GB).
phantora_jobs(versions Torch2_10_0 Torch2_11_0 Torch2_12_1 Torch2_13_0 Torch2_14_1 HEAVY TIMEOUT 2400)
phantora_jobs(frameworks Judgement)
phantora_jobs(frameworks Programs TORCH HEAVY TIMEOUT 14400)
