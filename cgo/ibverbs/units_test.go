package ibverbs

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAckExponent(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		n    uint8
		real time.Duration
	}{
		{-1, 1, 8192 * time.Nanosecond},
		{0, 1, 8192 * time.Nanosecond},
		{8192, 1, 8192 * time.Nanosecond},
		{8193, 2, 16384 * time.Nanosecond},
		{67108864, 14, 67108864},
		{67108865, 15, 2 * 67108864},
		{time.Second, 18, 1073741824},
		{MaxAckTimeout, 31, MaxAckTimeout},
		{MaxAckTimeout + 1, 31, MaxAckTimeout},
	} {
		if n := AckExponent(c.d); n != c.n || AckTimeout(n) != c.real {
			t.Errorf("AckExponent(%v) = %d (%v), want %d (%v)", c.d, n, AckTimeout(n), c.n, c.real)
		}
	}
	if AckTimeout(0) != 0 {
		t.Error("exponent 0 is no timeout")
	}
}

func TestMTU(t *testing.T) {
	for code, m := range []MTU{0, 256, 512, 1024, 2048, 4096, 0} {
		if mtuOf(uint32(code)) != m {
			t.Errorf("mtuOf(%d) = %d, want %d", code, mtuOf(uint32(code)), m)
		}
		if m != 0 && m.wire() != uint32(code) {
			t.Errorf("MTU %d encodes as %d, want %d", m, m.wire(), code)
		}
	}
	for _, m := range []MTU{0, 1, 128, 1500, 8192, -4096} {
		if m.Valid() {
			t.Errorf("MTU %d is valid", m)
		}
	}
}

func TestUnknownCodesPrintAsNumbers(t *testing.T) {
	for got, want := range map[string]string{
		Status(10).String():    "REM_ACCESS_ERR",
		Status(99).String():    "status 99",
		QPState(6).String():    "ERR",
		QPState(42).String():   "state 42",
		PortState(4).String():  "ACTIVE",
		PortState(9).String():  "port state 9",
		EventType(18).String(): "GID_CHANGE",
		EventType(77).String(): "event 77",
		LinkLayer(2).String():  "Ethernet",
		LinkLayer(7).String():  "link layer 7",
		GIDType(3).String():    "RoCE v2",
		GIDType(8).String():    "GID type 8",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestErrorsKeepTheErrno(t *testing.T) {
	var err error = &ModifyError{QPN: 17, From: Init, To: RTR, Attrs: "path MTU 1024", Errno: syscall.ETIMEDOUT, Hint: modifyHint(RTR, syscall.ETIMEDOUT)}
	if !errors.Is(err, syscall.ETIMEDOUT) {
		t.Error("errno is lost")
	}
	for _, part := range []string{"17", "INIT", "RTR", "path MTU 1024", "110", "resolve"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
	err = &Error{Op: "ibv_reg_mr", On: "rxe0", Errno: syscall.ENOMEM, Hint: createHint(syscall.ENOMEM)}
	if !errors.Is(err, syscall.ENOMEM) || !strings.Contains(err.Error(), "ulimit") {
		t.Errorf("%q", err)
	}
	if !errors.Is(ErrNoLibrary, ErrUnsupported) || errors.Is(ErrUnsupported, ErrNoLibrary) || !errors.Is(ErrNoLibrary, errors.ErrUnsupported) || !errors.Is(ErrUnsupported, errors.ErrUnsupported) {
		t.Error("a missing library is not errors.ErrUnsupported")
	}
}

func TestAttributesOutOfRangeAreNamed(t *testing.T) {
	ok := RTRAttr{Path: Path{Port: 1, GRH: &GlobalRoute{SGIDIndex: 255}}, PathMTU: 1024, DestQPN: 1<<24 - 1, PSN: 1<<24 - 1, MaxDestRdAtomic: 16}
	if hint := ok.invalid(); hint != "" {
		t.Fatalf("valid attributes refused: %s", hint)
	}
	for want, change := range map[string]func(*RTRAttr){
		"MTU":                func(a *RTRAttr) { a.PathMTU = 1500 },
		"QP number":          func(a *RTRAttr) { a.DestQPN = 1 << 24 },
		"PSN":                func(a *RTRAttr) { a.PSN = 1 << 24 },
		"max_dest_rd_atomic": func(a *RTRAttr) { a.MaxDestRdAtomic = 256 },
		"port":               func(a *RTRAttr) { a.Path.Port = 0 },
		"sgid_index":         func(a *RTRAttr) { a.Path.GRH = &GlobalRoute{SGIDIndex: 256} },
		"flow label":         func(a *RTRAttr) { a.Path.GRH = &GlobalRoute{FlowLabel: 1 << 20} },
	} {
		a := ok
		change(&a)
		if hint := a.invalid(); !strings.Contains(hint, want) {
			t.Errorf("%s out of range: %q", want, hint)
		}
	}
	for want, a := range map[string]RTSAttr{
		"PSN":           {PSN: 1 << 24},
		"max_rd_atomic": {MaxRdAtomic: 256},
		"retries":       {Retries: 8},
		"RNR":           {RNRRetries: -1},
	} {
		if hint := a.invalid(); !strings.Contains(hint, want) {
			t.Errorf("%s out of range: %q", want, hint)
		}
	}
}
