/* The kernel data as it is, so that a program that links the library has nothing to look for. */
    .section .rodata
    .globl phantora_h200_begin
    .hidden phantora_h200_begin
    .globl phantora_h200_end
    .hidden phantora_h200_end
phantora_h200_begin:
    .incbin "h200.tsv"
phantora_h200_end:
    .section .note.GNU-stack, "", %progbits
