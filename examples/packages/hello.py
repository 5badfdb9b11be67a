"""A sum and a product on whatever device there is; with CUGRT_DRIVER=emulated on the CPU."""
import numpy as np

import cugrt

MODULE = b"""cugrt 1

func @main(%x: tensor<[n], f32>, %y: tensor<[n], f32>) -> (tensor<[n], f32>) attributes {upper_bounds = {n = 1024}} {
  %s = add(%x, %y)
  %r = mul(%s, %s)
  return %r
}
"""
print(cugrt.load(MODULE)(x=np.arange(4, dtype="float32"), y=np.ones(4, "float32")))  # [ 1.  4.  9. 16.]
