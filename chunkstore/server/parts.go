package server

import "github.com/rmatail/rmatail/rdma"

// parts are what a node is made of that tests replace.
type parts struct {
	export func(cfg rdma.Config, mem []byte) (export, error)
}

func realParts() parts { return parts{export: newRDMAExport} }
