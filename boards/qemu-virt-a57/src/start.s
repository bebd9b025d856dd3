// The first instructions: floating point, exceptions, memory, and then Rust.
//
// QEMU enters at exception level 1 with the MMU off. Floating point comes first: compiled code
// copies memory by NEON. The MMU comes before Rust, too: as long as it is off all memory is a
// device's, and an access that is not aligned traps.

.section .text.start, "ax"
.global _start
_start:
    ldr     x0, =stack_top
    mov     sp, x0
    bl      enable

    // Zeros where Rust expects them.
    ldr     x0, =bss_start
    ldr     x1, =bss_end
0:  cmp     x0, x1
    b.hs    1f
    stp     xzr, xzr, [x0], #16
    b       0b

    // Paint on the stack, nothing of which is in use.
1:  ldr     x0, =stack_bottom
    mov     x1, sp
    ldr     w2, =0x5afec0de
2:  cmp     x0, x1
    b.hs    3f
    str     w2, [x0], #4
    b       2b
3:  bl      main
    b       .

// The other cores. The end of a stack is what they are given.
.global secondary
secondary:
    mov     sp, x0
    bl      enable
    bl      work
    b       .

// Floating point, vectors, MMU and caches of the core that calls it.
.balign 4
enable:
    mov     x0, #(3 << 20)
    msr     cpacr_el1, x0
    ldr     x0, =vectors
    msr     vbar_el1, x0
    // Attributes 0: a device's; 1: normal memory, written back.
    ldr     x0, =0xff00
    msr     mair_el1, x0
    // Addresses of 32 bits, pages of 4 KiB, tables in memory that is shared and cached.
    ldr     x0, =0x80803520
    msr     tcr_el1, x0
    ldr     x0, =blocks
    msr     ttbr0_el1, x0
    tlbi    vmalle1
    dsb     sy
    isb
    mrs     x0, sctlr_el1
    ldr     x1, =0x1005
    orr     x0, x0, x1
    msr     sctlr_el1, x0
    isb
    ret

// Where memory is: each address at itself, in blocks of 1 GiB. The first holds devices.
.section .rodata.blocks, "a"
.balign 4096
blocks:
    .quad   0x00000401
    .quad   0x40000705
    .quad   0x80000705
    .quad   0xc0000705

// An interrupt: everything that a function may change is kept, floating point included.
.section .text.interrupted, "ax"
.balign 4
interrupted:
    sub     sp, sp, #576
    stp     x0, x1, [sp, #0]
    stp     x2, x3, [sp, #16]
    stp     x4, x5, [sp, #32]
    stp     x6, x7, [sp, #48]
    stp     x8, x9, [sp, #64]
    stp     x10, x11, [sp, #80]
    stp     x12, x13, [sp, #96]
    stp     x14, x15, [sp, #112]
    stp     x16, x17, [sp, #128]
    stp     x18, x30, [sp, #144]
    mrs     x0, elr_el1
    mrs     x1, spsr_el1
    stp     x0, x1, [sp, #160]
    mrs     x0, fpsr
    mrs     x1, fpcr
    stp     x0, x1, [sp, #176]
    stp     q0, q1, [sp, #192]
    stp     q2, q3, [sp, #224]
    stp     q4, q5, [sp, #256]
    stp     q6, q7, [sp, #288]
    add     x0, sp, #320
    stp     q16, q17, [x0, #0]
    stp     q18, q19, [x0, #32]
    stp     q20, q21, [x0, #64]
    stp     q22, q23, [x0, #96]
    stp     q24, q25, [x0, #128]
    stp     q26, q27, [x0, #160]
    stp     q28, q29, [x0, #192]
    stp     q30, q31, [x0, #224]
    bl      interrupt
    add     x0, sp, #320
    ldp     q16, q17, [x0, #0]
    ldp     q18, q19, [x0, #32]
    ldp     q20, q21, [x0, #64]
    ldp     q22, q23, [x0, #96]
    ldp     q24, q25, [x0, #128]
    ldp     q26, q27, [x0, #160]
    ldp     q28, q29, [x0, #192]
    ldp     q30, q31, [x0, #224]
    ldp     q0, q1, [sp, #192]
    ldp     q2, q3, [sp, #224]
    ldp     q4, q5, [sp, #256]
    ldp     q6, q7, [sp, #288]
    ldp     x0, x1, [sp, #176]
    msr     fpsr, x0
    msr     fpcr, x1
    ldp     x0, x1, [sp, #160]
    msr     elr_el1, x0
    msr     spsr_el1, x1
    ldp     x18, x30, [sp, #144]
    ldp     x16, x17, [sp, #128]
    ldp     x14, x15, [sp, #112]
    ldp     x12, x13, [sp, #96]
    ldp     x10, x11, [sp, #80]
    ldp     x8, x9, [sp, #64]
    ldp     x6, x7, [sp, #48]
    ldp     x4, x5, [sp, #32]
    ldp     x2, x3, [sp, #16]
    ldp     x0, x1, [sp, #0]
    add     sp, sp, #576
    eret

// What cannot be continued is printed. The number says which vector it was.
.section .text.vectors, "ax"
.balign 2048
vectors:
.set number, 0
.rept 16
.balign 128
.if number == 5
    b       interrupted
.else
    mov     x3, #number
    mrs     x0, esr_el1
    mrs     x1, elr_el1
    mrs     x2, far_el1
    // The stack may be what is at fault.
    ldr     x4, =stack_top
    mov     sp, x4
    b       fault
.endif
.set number, number + 1
.endr
