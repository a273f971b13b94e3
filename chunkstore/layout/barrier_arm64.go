package layout

// deviceBarrier is DMB OSHST: stores before it are seen by devices before
// stores after it.
//
//go:noescape
func deviceBarrier()
