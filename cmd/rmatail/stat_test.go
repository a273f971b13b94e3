package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// Numbers of the node are printed with all their digits.
func TestFlattenKeepsDigits(t *testing.T) {
	d := json.NewDecoder(strings.NewReader(`{"epoch":743651421677598772,"a":{"p99":1.25,"n":3.0001},"list":[1,2],"on":true}`))
	d.UseNumber()
	var all map[string]any
	if err := d.Decode(&all); err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	flatten(rows, "", all)
	for name, want := range map[string]string{"epoch": "743651421677598772", "a.p99": "1.250", "a.n": "3", "list": "1 2", "on": "true"} {
		if rows[name] != want {
			t.Errorf("%s is %q, want %q", name, rows[name], want)
		}
	}
}
