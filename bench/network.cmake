# Benchmarks of the network library: network_bench, and the programs that peers/run.sh compares.
find_package(benchmark REQUIRED)
add_executable(network_bench network_bench.cpp)
target_link_libraries(network_bench PRIVATE phantora::core benchmark::benchmark_main phantora_options)

foreach(program ours oracle)
  add_executable(peers_${program} peers/${program}.cpp)
  target_link_libraries(peers_${program} PRIVATE phantora::core phantora_options)
endforeach()
find_library(SIMGRID_LIBRARY simgrid)
if(SIMGRID_LIBRARY)
  add_executable(peers_simgrid peers/simgrid.cpp)
  target_link_libraries(peers_simgrid PRIVATE phantora::core ${SIMGRID_LIBRARY})
endif()
