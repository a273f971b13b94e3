//go:build !race

package sink

// keepsUp is the share of the long queue's throughput that the appender has to have.
const keepsUp = 0.4
