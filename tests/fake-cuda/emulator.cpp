/* Threads of a block are fibers. One fiber runs threads one after the other as long as they come to their end without
 * waiting, so that kernels without barriers cost no switches; a thread that waits keeps its fiber, and the rest goes
 * on with another. When all that can run has run, those who wait are looked at: warps whose lanes have met go on,
 * and when all threads stand at the same barrier, all do. Anything else is a kernel's mistake. */
#include "emulator.h"

#include "fiber.h"

#include "../../kernels/cuda/cuda-host.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

using eyelet_host::Kernel;

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace {

enum { THREADS = 1024, WARP = 32, STACK_BYTES = 128 << 10, GUARD_BYTES = 64 << 10 };
enum State : uint8_t { UNSTARTED, READY, AT_BARRIER, AT_MEETING, DONE };

struct Thread {
    State state;
    unsigned fiber;
    const char *file;
    int line;
    eyelet_host::Meeting kind;
    unsigned mask, from;
    uint64_t value;
};

Thread threads[THREADS];
void *fibers[THREADS];       /* stack pointers */
unsigned idle[THREADS], idles; /* fibers that run nothing */
unsigned made;               /* fibers that have a stack */
unsigned count;              /* threads in the block */
unsigned started, offset, direction; /* the order of threads in this block */
unsigned current, current_fiber;
void *scheduler;
const Kernel *kernel;
const void *record;
unsigned char *dynamic;
unsigned char *dynamic_map; /* ends where a page begins that nobody may touch */
enum { DYNAMIC_LIMIT = 256 << 10 };
const Kernel *kernels;
volatile bool running;

uint3 place(unsigned thread)
{
    return {thread % blockDim.x, thread / blockDim.x % blockDim.y, thread / (blockDim.x * blockDim.y)};
}

/* The i-th thread in this block's order. */
unsigned in_order(unsigned i)
{
    const unsigned at = (i + offset) % count;
    return direction ? count - 1 - at : at;
}

void enter(unsigned thread)
{
    current = thread;
    current_fiber = threads[thread].fiber;
    threadIdx = place(thread);
}

/* A fiber's life: threads as long as there are any, then idle until there are again. */
void live()
{
    for (;;) {
        while (started < count) {
            const unsigned thread = in_order(started++);
            threads[thread].fiber = current_fiber;
            enter(thread);
            kernel->call(kernel->function, record);
            threads[current].state = DONE;
        }
        const unsigned self = current_fiber;
        idle[idles++] = self;
        eyelet_switch(&fibers[self], scheduler);
    }
}

unsigned idle_fiber()
{
    if (idles)
        return idle[--idles];
    static unsigned char *stacks;
    if (!stacks) {
        void *map = mmap(nullptr, (size_t)THREADS * (STACK_BYTES + GUARD_BYTES), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (map == MAP_FAILED)
            die("no memory for the stacks of threads");
        stacks = static_cast<unsigned char *>(map);
    }
    unsigned char *stack = stacks + (size_t)made * (STACK_BYTES + GUARD_BYTES);
    if (mprotect(stack, GUARD_BYTES, PROT_NONE))
        die("no guard below a stack");
    fibers[made] = fresh_stack(stack + GUARD_BYTES + STACK_BYTES, live);
    return made++;
}

void wait_as(State state, const char *file, int line)
{
    Thread &t = threads[current];
    t.state = state;
    t.file = file;
    t.line = line;
    eyelet_switch(&fibers[t.fiber], scheduler);
}

bool same_place(const Thread &a, const Thread &b) { return a.line == b.line && !strcmp(a.file, b.file); }

const char *what(const Thread &t)
{
    static char text[3][200];
    static unsigned next;
    char *to = text[next++ % 3];
    const char *doing = t.state == DONE         ? "has ended"
                        : t.state == AT_BARRIER ? "waits at the barrier"
                        : t.kind == eyelet_host::SHUFFLE ? "waits in the shuffle"
                        : t.kind == eyelet_host::BALLOT  ? "waits in the ballot"
                                                         : "waits in __syncwarp";
    if (t.state == DONE)
        snprintf(to, sizeof text[0], "%s", doing);
    else
        snprintf(to, sizeof text[0], "%s at %s:%d", doing, t.file, t.line);
    return to;
}

[[noreturn]] void die_of(unsigned a, const char *which, unsigned b)
{
    const uint3 p = place(a), q = place(b);
    die("%s, block (%u, %u, %u): %s: thread (%u, %u, %u) %s, thread (%u, %u, %u) %s", kernel->name,
        blockIdx.x, blockIdx.y, blockIdx.z, which, p.x, p.y, p.z, what(threads[a]), q.x, q.y, q.z,
        what(threads[b]));
}

/* Whether the lanes of the mask of this thread, which waits, have all come: then they go on. */
bool meet_now(unsigned thread)
{
    const unsigned warp = thread / WARP * WARP, mask = threads[thread].mask;
    Thread *lanes = threads + warp;
    const unsigned there = count - warp < WARP ? count - warp : (unsigned)WARP;
    for (unsigned lane = 0; lane < there; lane++)
        if (mask >> lane & 1) {
            const Thread &t = lanes[lane], &mine = threads[thread];
            if (t.state != AT_MEETING)
                return false;
            if (t.kind != mine.kind || t.mask != mask || !same_place(t, mine))
                die_of(thread, "lanes of one warp in different places", warp + lane);
        }
    uint64_t values[WARP], ballot = 0;
    memset(values, 0xff, sizeof values);
    for (unsigned lane = 0; lane < there; lane++)
        if (mask >> lane & 1) {
            values[lane] = lanes[lane].value;
            ballot |= (uint64_t)(lanes[lane].value != 0) << lane;
        }
    for (unsigned lane = 0; lane < there; lane++)
        if (mask >> lane & 1) {
            Thread &t = lanes[lane];
            t.value = t.kind == eyelet_host::BALLOT ? ballot : values[t.from % WARP];
            t.state = READY;
        }
    return true;
}

/* Lets those go on who have met. When nobody has, everybody stands at the barrier, or something is wrong. */
void release()
{
    bool met = false;
    unsigned meeting = count, at_barrier = count, done = count;
    for (unsigned i = 0; i < count; i++) {
        if (threads[i].state == AT_MEETING) {
            meeting = i;
            met |= meet_now(i);
        } else if (threads[i].state == AT_BARRIER) {
            at_barrier = i;
        } else if (threads[i].state == DONE) {
            done = i;
        }
    }
    if (met)
        return;
    if (meeting < count) {
        const unsigned warp = meeting / WARP * WARP;
        for (unsigned lane = 0; lane < WARP && warp + lane < count; lane++)
            if (threads[meeting].mask >> lane & 1 && threads[warp + lane].state != AT_MEETING)
                die_of(meeting, "a lane that its mask names is elsewhere", warp + lane);
    }
    if (at_barrier < count && done < count)
        die_of(at_barrier, "not all threads reach the barrier", done);
    for (unsigned i = 0; i < count; i++)
        if (!same_place(threads[i], threads[at_barrier]))
            die_of(at_barrier, "threads at different barriers", i);
    for (unsigned i = 0; i < count; i++)
        threads[i].state = READY;
}

void run_block()
{
    for (unsigned i = 0; i < count; i++)
        threads[i].state = UNSTARTED;
    started = 0;
    for (;;) {
        while (started < count) {
            current_fiber = idle_fiber();
            eyelet_switch(&scheduler, fibers[current_fiber]);
        }
        for (unsigned i = 0; i < count; i++) {
            const unsigned thread = in_order(i);
            if (threads[thread].state == READY) {
                enter(thread);
                eyelet_switch(&scheduler, fibers[current_fiber]);
            }
        }
        unsigned ready = 0, done = 0;
        for (unsigned i = 0; i < count; i++) {
            ready += threads[i].state == READY;
            done += threads[i].state == DONE;
        }
        if (done == count)
            return;
        if (!ready)
            release();
        direction ^= 1;
    }
}

struct sigaction before_segv, before_bus;

/* An access to memory that is nobody's, by a kernel. */
void on_fault(int signal, siginfo_t *info, void *)
{
    sigaction(SIGSEGV, &before_segv, nullptr);
    sigaction(SIGBUS, &before_bus, nullptr);
    if (!running)
        return;
    char text[300];
    const int length =
        snprintf(text, sizeof text,
                 "fake CUDA: %s, block (%u, %u, %u), thread (%u, %u, %u): touches %p, which is no memory of "
                 "the device (signal %d)\n",
                 kernel->name, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z,
                 info->si_addr, signal);
    if (write(2, text, (size_t)length) < 0)
        _exit(134);
}

} // namespace

void die(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("fake CUDA: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    abort();
}

namespace eyelet_host {

Kernel::Kernel(const char *name, size_t record_bytes, void (*call)(void (*)(), const void *),
               void (*function)(), unsigned char *shared, unsigned char *shared_end)
    : name(name), record_bytes(record_bytes), call(call), function(function), shared(shared),
      shared_end(shared_end), next(kernels)
{
    kernels = this;
}

void barrier(const char *file, int line) { wait_as(AT_BARRIER, file, line); }

uint64_t meet(Meeting kind, unsigned mask, uint64_t value, unsigned from, const char *file, int line)
{
    Thread &t = threads[current];
    t.kind = kind;
    t.mask = mask;
    t.value = value;
    t.from = from;
    if (!(mask >> lane() & 1))
        die("%s:%d: %s: the mask %#x lacks the calling lane %u", file, line, ::kernel->name, mask, lane());
    wait_as(AT_MEETING, file, line);
    return t.value;
}

unsigned lane() { return current % WARP; }

void *dynamic_shared() { return dynamic; }

} // namespace eyelet_host

const Kernel *find_kernel(const char *name)
{
    const Kernel *k = kernels;
    while (k && strcmp(k->name, name))
        k = k->next;
    return k;
}

void run_kernel(const Kernel &which, Extent grid, Extent block, size_t shared_bytes, const void *args)
{
    kernel = &which;
    record = args;
    gridDim = {grid.x, grid.y, grid.z};
    blockDim = {block.x, block.y, block.z};
    count = block.x * block.y * block.z;
    if (!dynamic_map) {
        const size_t guard = (size_t)sysconf(_SC_PAGESIZE);
        void *map = mmap(nullptr, DYNAMIC_LIMIT + guard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                         -1, 0);
        if (map == MAP_FAILED || mprotect(static_cast<char *>(map) + DYNAMIC_LIMIT, guard, PROT_NONE))
            die("no memory for dynamic shared memory");
        dynamic_map = static_cast<unsigned char *>(map);
    }
    dynamic = dynamic_map + DYNAMIC_LIMIT - (shared_bytes + 15) / 16 * 16;
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &before_segv);
    sigaction(SIGBUS, &action, &before_bus);
    running = true;
    uint64_t random = 0x9e3779b97f4a7c15u;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = {x, y, z};
                random = random * 6364136223846793005u + 1442695040888963407u;
                offset = (unsigned)(random >> 33) % count;
                direction = (unsigned)(random >> 63);
                memset(which.shared, 0xff, (size_t)(which.shared_end - which.shared));
                memset(dynamic, 0xff, (shared_bytes + 15) / 16 * 16);
                run_block();
            }
    running = false;
    sigaction(SIGSEGV, &before_segv, nullptr);
    sigaction(SIGBUS, &before_bus, nullptr);
}
