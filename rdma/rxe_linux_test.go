package rdma

import (
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"
)

// kernelResources is what the kernel counts on both devices: queue pairs, memory
// regions and the like of all processes.
func kernelResources(t *testing.T) string {
	t.Helper()
	from, to := requireRxe(t)
	list, err := netlink.RdmaResourceList()
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, r := range list {
		if r.Name == from.device || r.Name == to.device {
			text += fmt.Sprintf("%s %v ", r.Name, r.RdmaResourceSummaryEntries)
		}
	}
	if text == "" {
		t.Fatal("the kernel counts nothing on these devices")
	}
	return text
}
