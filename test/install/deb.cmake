# Builds the Debian packages, unpacks them, and uses what they hold. Wants BUILD (our build), ROOT (our
# source tree), VERSION and WORK (a scratch folder).
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE error)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${out}${error}")
  endif()
  set(output "${out}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CPACK} --config ${BUILD}/CPackConfig.cmake -B ${WORK})
set(root ${WORK}/root)
foreach(package phantora libphantora-dev)
  file(GLOB deb ${WORK}/${package}_${VERSION}_*.deb)
  run(dpkg-deb --field ${deb} Package Depends)
  # All that it needs is Debian's.
  if(NOT output MATCHES "Package: ${package}\n" OR NOT output MATCHES "libc6" OR output MATCHES "cuda|nvidia|nccl")
    message(FATAL_ERROR "${deb}: ${output}")
  endif()
  run(dpkg-deb --extract ${deb} ${root})
endforeach()

run(${root}/usr/bin/phantora run --cluster h200:1x2 -- sh -c "test $WORLD_SIZE = 2")
run(cc -std=c11 ${ROOT}/test/install/c/main.c -I${root}/usr/include -L${root}/usr/lib -lphantora_c
  -Wl,-rpath,${root}/usr/lib -o ${WORK}/program)
run(${WORK}/program)
