package server

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestRealHTTPConnectionsAreBounded: who opens all of them and says nothing gets no more,
// and others get in when those have gone.
func TestRealHTTPConnectionsAreBounded(t *testing.T) {
	s := serve(t, func(c *Config) { c.HTTP = "127.0.0.1:0" })
	addr := s.HTTPAddr().String()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	healthy := func() bool {
		r, err := client.Get("http://" + addr + "/healthz")
		if err != nil {
			return false
		}
		defer r.Body.Close()
		return r.StatusCode == 200
	}
	if !healthy() {
		t.Fatal("no answer")
	}
	var held []net.Conn
	for range httpConns + 20 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	closed := 0
	for _, c := range held[httpConns:] {
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err == io.EOF || isReset(err) {
			closed++
		}
	}
	if closed < 15 { // the first answer's connection may still be counted, or not any more
		t.Errorf("%d of 20 connections too many were closed", closed)
	}
	for _, c := range held {
		c.Close()
	}
	eventually(t, "an answer", healthy)
}

func isReset(err error) bool {
	e, ok := err.(*net.OpError)
	return ok && !e.Timeout()
}
