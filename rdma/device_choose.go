package rdma

import "errors"

// Devices lists the RDMA devices below the root by name.
func (h Host) Devices() ([]Device, error) { return nil, errors.ErrUnsupported }

// Choose is being filled in.
func (h Host) Choose(q Query) (Choice, error) { return Choice{}, errors.ErrUnsupported }
