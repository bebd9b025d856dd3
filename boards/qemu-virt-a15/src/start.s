@ The first instructions: exceptions, memory, and then Rust, which uses no floating point here.

.syntax unified
.arm

.section .text.start, "ax"
.global _start
_start:
    ldr     sp, =stack_top
    ldr     r0, =vectors
    mcr     p15, 0, r0, c12, c0, 0

    @ Zeros where Rust expects them.
    ldr     r0, =bss_start
    ldr     r1, =bss_end
    mov     r2, #0
0:  cmp     r0, r1
    strlo   r2, [r0], #4
    blo     0b

    @ Where memory is: each address at itself, in sections of 1 MiB. The first GiB holds devices; the
    @ rest is normal memory, written back and shared.
    ldr     r0, =sections
    mov     r1, #0
    ldr     r2, =0x00000c16
    ldr     r3, =0x00011c0e
1:  cmp     r1, #1024
    orrlo   r4, r2, r1, lsl #20
    orrhs   r4, r3, r1, lsl #20
    str     r4, [r0, r1, lsl #2]
    add     r1, r1, #1
    cmp     r1, #4096
    blo     1b
    mcr     p15, 0, r0, c2, c0, 0       @ their table
    mov     r1, #0
    mcr     p15, 0, r1, c2, c0, 2       @ for all addresses
    mov     r1, #1
    mcr     p15, 0, r1, c3, c0, 0       @ as they say
    mov     r1, #0
    mcr     p15, 0, r1, c8, c7, 0       @ nothing of it known before
    mcr     p15, 0, r1, c7, c5, 0
    dsb
    isb
    mrc     p15, 0, r1, c1, c0, 0
    ldr     r2, =0x1005                 @ MMU and caches
    orr     r1, r1, r2
    mcr     p15, 0, r1, c1, c0, 0
    isb

    @ Paint on the stack, nothing of which is in use.
    ldr     r0, =stack_bottom
    ldr     r2, =0x5afec0de
2:  cmp     r0, sp
    strlo   r2, [r0], #4
    blo     2b
    bl      main
    b       .

@ What cannot be continued is printed: number of the vector, status, place, address.
.section .text.vectors, "ax"
.balign 32
vectors:
    b       .
    b       undefined
    b       supervisor
    b       prefetch
    b       data
    b       .
    b       interrupt
    b       interrupt
undefined:
    mov     r3, #1
    b       trap
supervisor:
    mov     r3, #2
    b       trap
prefetch:
    mov     r3, #3
    b       trap
data:
    mov     r3, #4
    b       trap
interrupt:
    mov     r3, #6
trap:
    mov     r1, lr
    ldr     sp, =stack_top
    mrc     p15, 0, r0, c5, c0, 0
    mrc     p15, 0, r2, c6, c0, 0
    b       fault

.section .bss.sections, "aw", %nobits
.balign 16384
sections:
    .skip   16384
