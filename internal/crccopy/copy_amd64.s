#include "textflag.h"

// func copySums(dst, src *byte) (a, b, c uint32)
//
// Copies 4,096 bytes as three runs of 1,368, 1,368 and 1,360 bytes side by side: a
// CRC32 takes three cycles, and one can begin in each. Each word is loaded once: what
// is summed is what is stored, whatever others do to src meanwhile. The next block is
// fetched ahead: three runs of few words each keep too few cache lines on their way.
TEXT ·copySums(SB), NOSPLIT, $0-28
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	XORL AX, AX
	XORL BX, BX
	XORL CX, CX
	MOVQ $85, DX

loop:
	PREFETCHT0 4096(SI)
	PREFETCHT0 5464(SI)
	PREFETCHT0 6832(SI)
	MOVQ   (SI), R8
	MOVQ   1368(SI), R9
	MOVQ   2736(SI), R10
	MOVQ   8(SI), R11
	MOVQ   1376(SI), R12
	MOVQ   2744(SI), R13
	CRC32Q R8, AX
	CRC32Q R9, BX
	CRC32Q R10, CX
	MOVQ   R8, (DI)
	MOVQ   R9, 1368(DI)
	MOVQ   R10, 2736(DI)
	CRC32Q R11, AX
	CRC32Q R12, BX
	CRC32Q R13, CX
	MOVQ   R11, 8(DI)
	MOVQ   R12, 1376(DI)
	MOVQ   R13, 2744(DI)
	ADDQ   $16, SI
	ADDQ   $16, DI
	DECQ   DX
	JNE    loop

	MOVQ   (SI), R8
	MOVQ   1368(SI), R9
	CRC32Q R8, AX
	CRC32Q R9, BX
	MOVQ   R8, (DI)
	MOVQ   R9, 1368(DI)
	MOVL   AX, a+16(FP)
	MOVL   BX, b+20(FP)
	MOVL   CX, c+24(FP)
	RET
