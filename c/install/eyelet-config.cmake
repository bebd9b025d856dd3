# find_package(eyelet): the imported target eyelet::eyelet, a static library with its header.
include(CMakeFindDependencyMacro)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_dependency(Threads)

# Wherever the folder has been moved to.
get_filename_component(_eyelet_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET eyelet::eyelet)
  add_library(eyelet::eyelet STATIC IMPORTED)
  set_target_properties(eyelet::eyelet PROPERTIES
    IMPORTED_LOCATION "${_eyelet_prefix}/lib/libeyelet.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_eyelet_prefix}/include"
    INTERFACE_LINK_LIBRARIES Threads::Threads)
endif()
unset(_eyelet_prefix)
