package sink

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm is a timerfd(2), waited for as a socket is: the goroutine is parked, and the
// thread goes on with others.
type alarm struct {
	file *os.File
	conn rawControl
}

// rawControl lends a file's descriptor without taking it from the poller.
type rawControl interface {
	Control(func(fd uintptr)) error
}

func newAlarm() (clock, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("timerfd: %w", err)
	}
	file := os.NewFile(uintptr(fd), "timerfd")
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &alarm{file, conn}, nil
}

func (a *alarm) wait(d time.Duration) error {
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}
	var set error
	err := a.conn.Control(func(fd uintptr) { set = unix.TimerfdSettime(int(fd), 0, &at, nil) })
	if err = errors.Join(err, set); err != nil {
		return fmt.Errorf("timerfd: %w", err)
	}
	var expirations [8]byte
	_, err = a.file.Read(expirations[:])
	return err
}

func (a *alarm) close() error { return a.file.Close() }

// hold waits for d. Both calls act on the thread that the goroutine has at that
// moment; the slack stays with the thread, which harms nobody here.
func hold(d time.Duration) {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // refused nowhere; if it were, 50 us would show in sink_us
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		time.Sleep(d)
		return
	}
	until := unix.NsecToTimespec(now.Nano() + d.Nanoseconds())
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &until, nil) == unix.EINTR { // the scheduler's signals
	}
}
