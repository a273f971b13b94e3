package panels

import (
	"bytes"
	"errors"
	"image/png"
	"testing"
)

func TestWritePNG(t *testing.T) {
	row := Row{"a row", []Value{{Median: 2, Least: 1, Most: 30, Color: Blue}, {Median: 0, Least: 0, Most: 5, Color: Grey, Shape: Ring}}}
	var b bytes.Buffer
	if err := WritePNG(&b, Panel{"one", []Row{row, row}}, Panel{Title: "none"}, Panel{"other", []Row{{"zero", []Value{{Color: Orange}}}}}); err != nil {
		t.Fatal(err)
	}
	got, err := png.DecodeConfig(&b)
	if err != nil || got.Width < 1000 || got.Height < 100 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := WritePNG(&b, Panel{Title: "none"}); !errors.Is(err, ErrEmpty) {
		t.Errorf("of nothing: %v", err)
	}
}

func TestTicks(t *testing.T) {
	var labels []string
	for _, tick := range (ticks{}).Ticks(0.9, 21) {
		labels = append(labels, tick.Label)
	}
	if want := []string{"1", "2", "5", "10", "20"}; len(labels) != len(want) || labels[4] != want[4] {
		t.Errorf("labels %q, want %q", labels, want)
	}
}
