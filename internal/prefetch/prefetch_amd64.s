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
