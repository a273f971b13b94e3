package wire

import "strconv"

// Status is the outcome of a request. The numbers are frozen.
type Status uint8

const (
	StatusOK             Status = 0
	StatusBadRequest     Status = 1
	StatusUnknownShard   Status = 2
	StatusOutOfRetention Status = 3 // arg0: first kept position, arg1: length
	StatusBeyond         Status = 4 // arg0: length
	StatusOffset         Status = 5 // arg0: length now
	StatusNeedPrefix     Status = 6 // arg0: bytes of the chunk that the node holds
	StatusIncarnation    Status = 7 // arg0: the node's incarnation
	StatusLocked         Status = 8
	StatusNoStore        Status = 9
	StatusNoRDMA         Status = 10
	StatusTooLarge       Status = 11 // arg0: the limit
	StatusDeadline       Status = 12
	StatusBusy           Status = 13
	StatusFull           Status = 14
	StatusReadOnly       Status = 15
	StatusClosing        Status = 16
	StatusInternal       Status = 17
	StatusVersion        Status = 18 // arg0: the version that the node speaks
	StatusLease          Status = 19 // arg0, arg1: sequence and nonce of the held ballot
	StatusUnknownPeer    Status = 20
	StatusForbidden      Status = 21
)

// sentinel is the error that a status stands for; nil for StatusOK and for numbers that this version does not know.
func (s Status) sentinel() error {
	switch s {
	case StatusBadRequest:
		return ErrBadRequest
	case StatusUnknownShard:
		return ErrUnknownShard
	case StatusOutOfRetention:
		return ErrOutOfRetention
	case StatusBeyond:
		return ErrBeyond
	case StatusOffset:
		return ErrOffset
	case StatusNeedPrefix:
		return ErrNeedPrefix
	case StatusIncarnation:
		return ErrIncarnation
	case StatusLocked:
		return ErrLocked
	case StatusNoStore:
		return ErrNoStore
	case StatusNoRDMA:
		return ErrNoRDMA
	case StatusTooLarge:
		return ErrTooLarge
	case StatusDeadline:
		return ErrDeadline
	case StatusBusy:
		return ErrBusy
	case StatusFull:
		return ErrFull
	case StatusReadOnly:
		return ErrReadOnly
	case StatusClosing:
		return ErrClosing
	case StatusInternal:
		return ErrInternal
	case StatusVersion:
		return ErrVersion
	case StatusLease:
		return ErrLease
	case StatusUnknownPeer:
		return ErrUnknownPeer
	case StatusForbidden:
		return ErrForbidden
	}
	return nil
}

// statuses lists every failure, in the order in which ErrorOf looks for them.
var statuses = [...]Status{
	StatusUnknownShard, StatusOutOfRetention, StatusBeyond, StatusOffset, StatusNeedPrefix, StatusIncarnation, StatusLocked,
	StatusNoStore, StatusNoRDMA, StatusTooLarge, StatusDeadline, StatusBusy, StatusFull, StatusReadOnly, StatusClosing,
	StatusVersion, StatusLease, StatusUnknownPeer, StatusForbidden, StatusBadRequest, StatusInternal,
}

// String is the sentinel's text, "ok", or the number of a status that this version does not know.
func (s Status) String() string {
	if s == StatusOK {
		return "ok"
	}
	if e := s.sentinel(); e != nil {
		return e.Error()
	}
	return "status " + strconv.Itoa(int(s))
}
