// Copies and fills of any number of bytes, for steps whose size or address changes from run to run:
// in a graph they are kernel nodes, since the driver refuses to give copy and fill nodes new sizes
// or other kinds of memory.
//
// Sixteen bytes a thread and step where both addresses allow it, single bytes otherwise and at the
// end.
//
// Without a bench: copies and fills of the runtime, of no op.

typedef unsigned char Byte;
typedef unsigned long long Count;

extern "C" __global__ void transfer_copy(Byte *to, const Byte *from, Count bytes) {
  const Count first = Count(blockIdx.x) * blockDim.x + threadIdx.x;
  const Count step = Count(gridDim.x) * blockDim.x;
  Count done = 0;
  if (((Count(to) | Count(from)) & 15) == 0) {
    const Count vectors = bytes / 16;
    for (Count i = first; i < vectors; i += step)
      reinterpret_cast<uint4 *>(to)[i] = reinterpret_cast<const uint4 *>(from)[i];
    done = vectors * 16;
  }
  for (Count i = done + first; i < bytes; i += step)
    to[i] = from[i];
}

extern "C" __global__ void transfer_fill(Byte *to, Count bytes, unsigned int value) {
  const Count first = Count(blockIdx.x) * blockDim.x + threadIdx.x;
  const Count step = Count(gridDim.x) * blockDim.x;
  Count done = 0;
  if ((Count(to) & 15) == 0) {
    const unsigned int word = (value & 255u) * 0x01010101u;
    const Count vectors = bytes / 16;
    for (Count i = first; i < vectors; i += step)
      reinterpret_cast<uint4 *>(to)[i] = make_uint4(word, word, word, word);
    done = vectors * 16;
  }
  for (Count i = done + first; i < bytes; i += step)
    to[i] = Byte(value);
}
