// Runs CUDA kernels on the CPU, to test them: blocks and threads become loops, threads that wait at a barrier fibres.
// Threads and blocks run in one order or the other, so that what depends on the order shows.
#pragma once

#include <math.h>
#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#define CUDA_ON_CPU
#define __global__
#define __device__
#define __shared__ static

struct Place {
    unsigned x, y, z;
};

static Place threadIdx, blockIdx, blockDim, gridDim;

static float widen(unsigned short bits) {
    _Float16 half;
    memcpy(&half, &bits, 2);
    return half;
}

static unsigned short narrow(float value) {
    _Float16 half = value;
    unsigned short bits;
    memcpy(&bits, &half, 2);
    return bits;
}

static unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned __int128)a * b >> 64;
}

namespace cuda_on_cpu {

enum { DONE = 0, WRONG_COUNT = -1, UNEQUAL_BARRIERS = -2 };  // a positive result is the number of a wrong argument

struct Fibre {
    ucontext_t context;
    jmp_buf place;
    std::vector<char> stack = std::vector<char>(1 << 16);
    bool started = false, done = false;
};

static std::vector<Fibre*> fibres;
static ucontext_t outside;
static jmp_buf scheduler;
static std::function<void()> body;
static Fibre* running;

// Goes on in the scheduler; back here when that resumes the fibre. Unlike swapcontext it asks nothing of the kernel.
static void yield() {
    Fibre* self = running;
    if (!_setjmp(self->place)) _longjmp(scheduler, 1);
}

// A fibre lives on from block to block.
static void run_fibre() {
    for (;;) {
        body();
        running->done = true;
        yield();
    }
}

// Runs a fibre up to its next barrier or to its end.
static void resume(unsigned thread) {
    running = fibres[thread];
    threadIdx.x = thread;
    if (!_setjmp(scheduler)) {
        if (running->started) _longjmp(running->place, 1);
        running->started = true;
        getcontext(&running->context);
        running->context.uc_stack.ss_sp = running->stack.data();
        running->context.uc_stack.ss_size = running->stack.size();
        makecontext(&running->context, run_fibre, 0);
        swapcontext(&outside, &running->context);
    }
    running = nullptr;
}

// One block; the first thread shows whether there is a barrier at all.
static int run_block(unsigned threads, bool reverse) {
    auto ordered = [=](unsigned i) { return reverse ? threads - 1 - i : i; };
    while (fibres.size() < threads) fibres.push_back(new Fibre);
    for (Fibre* fibre : fibres) fibre->done = false;
    resume(ordered(0));
    bool plain = fibres[ordered(0)]->done;
    for (unsigned i = 1; plain && i < threads; i++) {
        threadIdx.x = ordered(i);
        body();
    }
    if (plain) return DONE;
    for (unsigned first = 1;; first = 0) {
        for (unsigned i = first; i < threads; i++) resume(ordered(i));
        unsigned done = 0;
        for (unsigned i = 0; i < threads; i++) done += fibres[i]->done;
        if (done == threads) return DONE;
        if (!done) continue;
        fibres.clear();  // some are left in the middle of a kernel
        return UNEQUAL_BARRIERS;
    }
}

template <class T>
constexpr char kind() {
    return std::is_pointer_v<T> ? 'p' : std::is_floating_point_v<T> ? 'd' : std::is_integral_v<T> ? 'i' : 's';
}

template <class... Parameter, size_t... I>
int launch(void (*kernel)(Parameter...), std::index_sequence<I...>, const unsigned* grid, unsigned threads,
           bool reverse, const char* kinds, const size_t* sizes, void** arguments) {
    if (strlen(kinds) != sizeof...(Parameter)) return WRONG_COUNT;
    int wrong = 0;
    ((wrong = wrong || (kinds[I] == kind<Parameter>() && sizes[I] == sizeof(Parameter)) ? wrong : (int)I + 1), ...);
    if (wrong) return wrong;
    std::tuple<std::remove_cv_t<Parameter>...> values(*(std::remove_cv_t<Parameter>*)arguments[I]...);
    body = [&] { std::apply(kernel, values); };
    gridDim = {grid[0], grid[1], 1}, blockDim = {threads, 1, 1};
    for (unsigned number = 0; number < grid[0] * grid[1]; number++) {
        unsigned block = reverse ? grid[0] * grid[1] - 1 - number : number;
        blockIdx = {block % grid[0], block / grid[0], 0};
        if (int failed = run_block(threads, reverse)) return failed;
    }
    return DONE;
}

}  // namespace cuda_on_cpu

static void __syncthreads() {
    if (!cuda_on_cpu::running) throw cuda_on_cpu::UNEQUAL_BARRIERS;
    cuda_on_cpu::yield();
}

#define ENTRY(NAME)                                                                                                   \
    template <class... Parameter>                                                                                     \
    static int enter_##NAME(void (*kernel)(Parameter...), const unsigned* grid, unsigned threads, bool reverse,       \
                            const char* kinds, const size_t* sizes, void** arguments) {                               \
        return cuda_on_cpu::launch(kernel, std::index_sequence_for<Parameter...>{}, grid, threads, reverse, kinds,    \
                                   sizes, arguments);                                                                 \
    }                                                                                                                 \
    extern "C" int launch_##NAME(const unsigned* grid, unsigned threads, bool reverse, const char* kinds,             \
                                 const size_t* sizes, void** arguments) try {                                         \
        return enter_##NAME(NAME, grid, threads, reverse, kinds, sizes, arguments);                                   \
    } catch (int failed) {                                                                                            \
        return failed;                                                                                                \
    }
