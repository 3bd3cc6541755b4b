/* The kernel data as it is, so that a program that links the library has nothing to look for. */
    .macro table gpu
    .globl phantora_\gpu\()_begin
    .hidden phantora_\gpu\()_begin
    .globl phantora_\gpu\()_end
    .hidden phantora_\gpu\()_end
phantora_\gpu\()_begin:
    .incbin "\gpu\().tsv"
phantora_\gpu\()_end:
    .endm

    .section .rodata
    table h200
    table h100
    table h200_lacking
    .section .note.GNU-stack, "", %progbits
