package doctor

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

const (
	// probeBytes is what is registered to try it.
	probeBytes = 1 << 20
	// probeTimeout bounds what is asked of one device. A kernel that does not answer
	// keeps the thread that asked, until the process ends.
	probeTimeout = 5 * time.Second
)

// probeVerbs asks libibverbs, and tries each device.
func probeVerbs(memory func(int) ([]byte, func(), error)) Verbs {
	listed, err := ibverbs.Devices()
	if err != nil {
		return Verbs{Err: err}
	}
	v := Verbs{Devices: map[string]VerbsDevice{}}
	for _, d := range listed {
		done := make(chan VerbsDevice, 1)
		go func() { done <- probeDevice(d.Name, memory) }()
		timer := time.NewTimer(probeTimeout)
		select {
		case v.Devices[d.Name] = <-done:
		case <-timer.C:
			v.Devices[d.Name] = VerbsDevice{OpenErr: fmt.Errorf("the kernel does not answer within %v: %w", probeTimeout, os.ErrDeadlineExceeded)}
		}
		timer.Stop()
	}
	return v
}

func probeDevice(name string, memory func(int) ([]byte, func(), error)) (v VerbsDevice) {
	ctx, err := ibverbs.Open(name)
	if err != nil {
		return VerbsDevice{OpenErr: err}
	}
	defer func() { v.OpenErr = errors.Join(v.OpenErr, ctx.Close()) }()
	if v.Attr, err = ctx.QueryDevice(); err != nil {
		return VerbsDevice{OpenErr: err}
	}
	v.Ports = map[int]ibverbs.PortAttr{}
	for port := 1; port <= v.Attr.Ports; port++ {
		if a, err := ctx.QueryPort(port); err == nil {
			v.Ports[port] = a
		}
	}
	if cq, err := ctx.CreateCQ(16, nil, 0); err != nil {
		v.CQErr = err
	} else if err := cq.Destroy(); err != nil {
		v.CQErr = err
	}
	v.Registered = probeBytes
	v.RegisterErr = register(ctx, memory)
	return v
}

// register registers memory for peers to read, and lets go of it.
func register(ctx *ibverbs.Context, memory func(int) ([]byte, func(), error)) error {
	mem, free, err := memory(probeBytes)
	if err != nil {
		return err
	}
	defer free()
	pd, err := ctx.AllocPD()
	if err != nil {
		return err
	}
	mr, err := pd.RegMR(mem, ibverbs.AccessRemoteRead)
	if err != nil {
		return errors.Join(err, pd.Dealloc())
	}
	return errors.Join(mr.Dereg(), pd.Dealloc())
}
