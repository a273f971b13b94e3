package wire

import "time"

// Await waits until the call has settled or a time has come, and reports whether it has: then Wait returns at once. It gives nothing
// up; at the call's own deadline, which only Wait and Abandon act upon, it reports that there is something to Wait for.
func (call *Call) Await(until time.Time) (settled bool) {
	if call.queued {
		call.c.Flush(call.deadline)
	}
	if !until.Before(call.deadline) {
		until = call.deadline
	}
	if !call.sleep(until) {
		return !until.Before(call.deadline)
	}
	call.done <- struct{}{} // for Wait; there is room, as a call settles once
	return true
}

// sleep takes the token of a settled call, if it comes before a time.
func (call *Call) sleep(until time.Time) bool {
	select {
	case <-call.done:
		return true
	default:
	}
	left := time.Until(until)
	if left <= 0 {
		return false
	}
	call.timer.Reset(left)
	defer call.timer.Stop()
	select {
	case <-call.done:
		return true
	case <-call.timer.C:
		return false
	}
}
