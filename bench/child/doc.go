// Package child runs the processes of a benchmark: servers, producers and
// consumers that are to be measured apart from each other. None outlives the
// process that has started it.
package child
