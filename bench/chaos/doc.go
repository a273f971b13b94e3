// Package chaos proves that a cluster which loses nodes loses nothing: it runs
// real nodes, producers and readers in processes of their own, breaks what can
// break, and compares every byte that a reader gets with what its position says
// it must be. All of it is tests; docs/tests.md says which one holds what.
//
// scripts/test runs each scenario once and a short random run; scripts/chaos runs
// the random one for as long as it is told, with a seed that repeats its faults.
package chaos
