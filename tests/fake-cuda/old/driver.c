/* A libcuda.so.1 that says it is CUDA 10.2's, and lacks what such a one has. */
int cuInit(unsigned flags) { return flags ? 1 : 0; }

int cuDriverGetVersion(int *version)
{
    *version = 10020;
    return 0;
}
