/* What the CUDA toolkit's stub of libcuda does: it loads, and every call answers 34. */
int cuInit(unsigned flags) { return flags == 0 ? 34 : 1; }
int cuDriverGetVersion(int *version) { return version ? 34 : 1; }
int cuGetProcAddress_v2(const char *symbol) { return symbol ? 34 : 1; }
