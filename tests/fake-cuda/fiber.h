/* Stacks to run on, and the change from one to another: what ucontext does, without its system call. */
#ifndef EYELET_FIBER_H
#define EYELET_FIBER_H

#include <stddef.h>
#include <stdint.h>

/* Saves what a call must keep, stores the stack pointer to `*from`, and goes on with the stack `to`. */
extern "C" __attribute__((visibility("hidden"))) void eyelet_switch(void **from, void *to);

#if defined(__x86_64__)
asm(R"(
    .text
    .hidden eyelet_switch
    .globl eyelet_switch
    .type eyelet_switch, @function
eyelet_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size eyelet_switch, .-eyelet_switch
)");
/* Words from the stack pointer of a stack that has not run yet to its top, and where among them the entry is. */
enum { SWITCH_WORDS = 8, SWITCH_ENTRY = 6 };
#elif defined(__aarch64__)
asm(R"(
    .text
    .hidden eyelet_switch
    .globl eyelet_switch
    .type eyelet_switch, %function
eyelet_switch:
    sub sp, sp, #160
    stp x19, x20, [sp]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size eyelet_switch, .-eyelet_switch
)");
enum { SWITCH_WORDS = 20, SWITCH_ENTRY = 11 };
#else
#error "fibers are written for x86-64 and for 64-bit ARM"
#endif

/* What `eyelet_switch` goes to in order to begin `entry`, which must not return. `top` is aligned to 16 bytes. */
inline void *fresh_stack(void *top, void (*entry)())
{
    void **words = static_cast<void **>(top) - SWITCH_WORDS;
    for (int i = 0; i < SWITCH_WORDS; i++)
        words[i] = nullptr;
    words[SWITCH_ENTRY] = reinterpret_cast<void *>(entry);
    return words;
}

#endif
