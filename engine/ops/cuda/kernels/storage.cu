// How kernels reach arrays: stored as float16 or float32, told at run time; the arithmetic is float32.
// `halves` has one bit for each argument after it, set where that is a float16 array. Arrays begin at multiples of 16
// bytes.

#define BLOCK 256
#define KERNEL extern "C" __global__ void
#define EIGHT for (int k = 0; k < 8; k++)

typedef unsigned char Byte;
typedef unsigned short Half;
typedef long long Int;
typedef const void* In;
typedef const float* Floats;

#ifndef CUDA_ON_CPU
__device__ float widen(Half bits) { float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits)); return x; }
__device__ Half narrow(float x) { Half bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); return bits; }
#endif

template <class T> struct alignas(16) Eight { T at[8]; };

struct Array {
    void* at;
    bool half;
    __device__ Array(const void* at, Int halves, int place) : at((void*)at), half(halves >> place & 1) {}
    __device__ float operator[](Int i) const { return half ? widen(((Half*)at)[i]) : ((float*)at)[i]; }
    __device__ void set(Int i, float x) const {
        if (half) ((Half*)at)[i] = narrow(x);
        else ((float*)at)[i] = x;
    }

    // `count` elements from `first` on, the rest of v zeros; eight of them, from a multiple of 8 on, in whole words.
    __device__ void load(Int first, int count, float* v) const {
        if (count < 8) EIGHT v[k] = k < count ? (*this)[first + k] : 0;
        else if (half) { Eight<Half> held = ((Eight<Half>*)at)[first / 8]; EIGHT v[k] = widen(held.at[k]); }
        else { Eight<float> held = ((Eight<float>*)at)[first / 8]; EIGHT v[k] = held.at[k]; }
    }
    __device__ void store(Int first, int count, const float* v) const {
        if (count < 8) EIGHT { if (k < count) set(first + k, v[k]); }
        else if (half) { Eight<Half> held; EIGHT held.at[k] = narrow(v[k]); ((Eight<Half>*)at)[first / 8] = held; }
        else { Eight<float> held; EIGHT held.at[k] = v[k]; ((Eight<float>*)at)[first / 8] = held; }
    }
};

// The number of this thread, one of `threads`; and the elements that it works on where each takes eight of `size`.
#define FIRST (blockIdx.x * (Int)BLOCK + threadIdx.x)
#define THREAD(threads) Int thread = FIRST; if (thread >= (threads)) return;
#define SPAN(size) \
    THREAD(((size) + 7) / 8) \
    Int first = 8 * thread; \
    int count = (size) - first < 8 ? (int)((size) - first) : 8;

// Adds up two values of each thread of a block in a fixed order: threads that lie a multiple of `width` apart belong
// together, and the first `width` of them hold the sums.
__device__ void fold(double (*held)[BLOCK], double first, double second, int width) {
    held[0][threadIdx.x] = first, held[1][threadIdx.x] = second;
    for (int far = BLOCK / 2; far >= width; far /= 2) {
        __syncthreads();
        for (int s = 0; s < 2 && threadIdx.x < far; s++) held[s][threadIdx.x] += held[s][threadIdx.x + far];
    }
    __syncthreads();
}
