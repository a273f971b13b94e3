//go:build !linux && !darwin

package durable

func bootID() string { return "" }
