#include "textflag.h"

// func deviceBarrier()
TEXT ·deviceBarrier(SB), NOSPLIT, $0-0
	DMB $2 // OSHST: outer shareable, stores only
	RET
