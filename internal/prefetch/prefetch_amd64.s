//go:build amd64 && !noasm

#include "textflag.h"

// func lines(p *byte, n int)
TEXT ·lines(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ n+8(FP), BX

next:
	PREFETCHT0 (AX)
	ADDQ $64, AX
	SUBQ $64, BX
	JG   next
	RET

// func places(p unsafe.Pointer, at *uint32, n, size int)
TEXT ·places(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), AX
	MOVQ at+8(FP), BX
	MOVQ n+16(FP), CX
	CMPQ size+24(FP), $8
	JEQ  eight
	CMPQ size+24(FP), $1
	JEQ  one

four:
	MOVL (BX), DX
	PREFETCHT0 (AX)(DX*4)
	ADDQ $4, BX
	DECQ CX
	JNZ  four
	RET

eight:
	MOVL (BX), DX
	PREFETCHT0 (AX)(DX*8)
	ADDQ $4, BX
	DECQ CX
	JNZ  eight
	RET

one:
	MOVL (BX), DX
	PREFETCHT0 (AX)(DX*1)
	ADDQ $4, BX
	DECQ CX
	JNZ  one
	RET

// func longPlaces(p unsafe.Pointer, at *int64, n int)
TEXT ·longPlaces(SB), NOSPLIT, $0-24
	MOVQ p+0(FP), AX
	MOVQ at+8(FP), BX
	MOVQ n+16(FP), CX

next:
	MOVQ (BX), DX
	PREFETCHT0 (AX)(DX*4)
	ADDQ $8, BX
	DECQ CX
	JNZ  next
	RET
