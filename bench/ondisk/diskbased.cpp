// GraphBolt's reader of NumPy files by io_uring (DiskBasedFeature), as a class of PyTorch. The last DGL
// on PyPI is older than the reader: loading.py builds it from a checkout of DGL.
#include <torch/script.h>

#include "cnumpy.h"

namespace {

using Array = graphbolt::storage::OnDiskNpyArray;
using Read = graphbolt::Future<torch::Tensor>;

c10::intrusive_ptr<Array> array(std::string path, torch::ScalarType dtype, std::vector<int64_t> shape, int64_t threads) {
  return Array::Create(std::move(path), dtype, shape, threads);
}

}  // namespace

TORCH_LIBRARY(diskbased, m) {
  m.class_<Read>("Read").def("wait", &Read::Wait);
  m.class_<Array>("Array").def("index_select", &Array::IndexSelect);
  m.def("array", &array);
}
