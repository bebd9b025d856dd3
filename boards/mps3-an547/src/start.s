@ The first instructions: floating point, memory, and then Rust.

.syntax unified
.thumb

.section .vectors, "a"
    .word   stack_top
    .word   reset
.rept 14
    .word   trap
.endr

.section .text.start, "ax"
.global reset
.thumb_func
reset:
    @ Floating point: compiled code uses it anywhere.
    ldr     r0, =0xe000ed88
    ldr     r1, [r0]
    orr     r1, r1, #(0xf << 20)
    str     r1, [r0]
    dsb
    isb

    @ What statics start with.
    ldr     r0, =data_start
    ldr     r1, =data_end
    ldr     r2, =data_source
0:  cmp     r0, r1
    bhs     1f
    ldr     r3, [r2], #4
    str     r3, [r0], #4
    b       0b
1:  ldr     r0, =bss_start
    ldr     r1, =bss_end
    movs    r2, #0
2:  cmp     r0, r1
    bhs     3f
    str     r2, [r0], #4
    b       2b
3:  ldr     r0, =fast_start
    ldr     r1, =fast_end
4:  cmp     r0, r1
    bhs     5f
    str     r2, [r0], #4
    b       4b

    @ Paint on the stack, nothing of which is in use.
5:  ldr     r0, =stack_bottom
    mov     r1, sp
    ldr     r2, =0x5afec0de
6:  cmp     r0, r1
    bhs     7f
    str     r2, [r0], #4
    b       6b
7:  bl      main
    b       .

@ What cannot be continued is printed: number, status, place.
.thumb_func
trap:
    mrs     r0, ipsr
    ldr     r1, =0xe000ed28
    ldr     r1, [r1]
    ldr     r2, [sp, #24]
    ldr     r3, =stack_top
    mov     sp, r3
    b       fault
