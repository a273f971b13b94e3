package producer

// Workers bounds how many Appenders have a batch on its way at once: many shards
// share one disk. It is a number of places, not of goroutines. nil: no bound.
type Workers struct{ places chan struct{} }

// NewWorkers returns n places, at least 1.
func NewWorkers(n int) *Workers { return &Workers{make(chan struct{}, max(n, 1))} }

func (w *Workers) take() {
	if w != nil {
		w.places <- struct{}{}
	}
}

func (w *Workers) give() {
	if w != nil {
		<-w.places
	}
}

// Taken is how many places are taken, of how many.
func (w *Workers) Taken() (taken, all int) {
	if w == nil {
		return 0, 0
	}
	return len(w.places), cap(w.places)
}
