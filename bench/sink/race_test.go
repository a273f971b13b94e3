//go:build race

package sink

// keepsUp is the share of the long queue's throughput that the appender has to have.
// The race detector costs it several times what it costs a channel.
const keepsUp = 0.2
