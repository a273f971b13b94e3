// Package panels draws what benchmarks found: panels side by side, a line for each row, a
// mark for each median, and a bar from the least to the most of all rounds.
package panels

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Colors that people with colour blindness tell apart (Okabe and Ito); what is printed in
// grey is told apart by the shapes.
var (
	Blue   = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	Orange = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	Green  = color.RGBA{0x00, 0x9e, 0x73, 0xff}
	Grey   = color.RGBA{0x70, 0x70, 0x70, 0xff}
)

// Shape is that of a median's mark.
type Shape int

const (
	Disc Shape = iota
	Ring
)

// Value is one figure of a row. What is not positive is drawn at the edge: axes are
// logarithmic.
type Value struct {
	Median, Least, Most float64
	Color               color.Color
	Shape               Shape
}

// Row is a line of a panel.
type Row struct {
	Name   string
	Values []Value // one below the other
}

// Panel is a diagram.
type Panel struct {
	Title string
	Rows  []Row // from the top
}

// ErrEmpty is returned when no panel has a row.
var ErrEmpty = errors.New("nothing to draw")

// WritePNG draws the panels that have rows, side by side.
func WritePNG(w io.Writer, all ...Panel) error {
	var plots []*plot.Plot
	rows := 0
	for _, p := range all {
		if len(p.Rows) == 0 {
			continue
		}
		one, err := p.plot()
		if err != nil {
			return err
		}
		plots, rows = append(plots, one), max(rows, len(p.Rows))
	}
	if len(plots) == 0 {
		return ErrEmpty
	}
	c := vgimg.NewWith(vgimg.UseWH(vg.Length(len(plots))*14*vg.Centimeter, vg.Length(max(rows, 4)+4)*0.5*vg.Centimeter), vgimg.UseDPI(96))
	tiles := draw.Tiles{Rows: 1, Cols: len(plots), PadX: vg.Centimeter, PadTop: 4, PadBottom: 4, PadLeft: 4, PadRight: 12}
	for i, at := range plot.Align([][]*plot.Plot{plots}, tiles, draw.New(c))[0] {
		plots[i].Draw(at)
	}
	_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(w)
	return err
}

// smallest keeps values on a logarithmic axis.
const smallest = 1e-9

func (p *Panel) plot() (*plot.Plot, error) {
	d := plot.New()
	d.X.Label.Text = p.Title
	d.X.Scale, d.X.Tick.Marker = plot.LogScale{}, ticks{}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xe8}, color.Gray{0xd0}
	d.Add(grid)
	low, high := math.Inf(1), math.Inf(-1)
	for _, r := range p.Rows {
		for _, v := range r.Values {
			if v.Least > 0 {
				low = min(low, v.Least)
			}
			high = max(high, v.Most)
		}
	}
	low = min(low, high)
	var names []string
	for i, r := range slices.Backward(p.Rows) { // the first on top
		names = append(names, r.Name)
		at := float64(len(p.Rows)-1-i) + 0.13*float64(len(r.Values)-1)
		for _, v := range r.Values {
			if err := v.add(d, max(low, smallest), at); err != nil {
				return nil, fmt.Errorf("%s: %w", r.Name, err)
			}
			at -= 0.26
		}
	}
	low, high = max(low, smallest)/1.15, max(high, smallest)*1.15
	if wide := 5 * low / high; wide > 1 { // else an axis may have no two labels
		low, high = low/math.Sqrt(wide), high*math.Sqrt(wide)
	}
	d.X.Min, d.X.Max = low, high
	d.NominalY(names...)
	d.Y.Min, d.Y.Max = -0.6, float64(len(p.Rows))-0.4
	return d, nil
}

func (v Value) add(d *plot.Plot, least, at float64) error {
	line, err := plotter.NewLine(plotter.XYs{{X: max(v.Least, least), Y: at}, {X: max(v.Most, least), Y: at}})
	if err != nil {
		return err
	}
	line.Color, line.Width = v.Color, vg.Points(1.5)
	point, err := plotter.NewScatter(plotter.XYs{{X: max(v.Median, least), Y: at}})
	if err != nil {
		return err
	}
	shape := draw.GlyphDrawer(draw.CircleGlyph{})
	if v.Shape == Ring {
		shape = draw.RingGlyph{}
	}
	point.GlyphStyle = draw.GlyphStyle{Color: v.Color, Radius: vg.Points(3), Shape: shape}
	d.Add(line, point)
	return nil
}

// ticks labels 1, 2 and 5 times the powers of ten, of many decades the powers alone.
type ticks struct{}

func (ticks) Ticks(low, high float64) (all []plot.Tick) {
	decades := math.Log10(high / low)
	for e := math.Floor(math.Log10(low)); e <= math.Log10(high); e++ {
		for _, f := range []float64{1, 2, 5} {
			v := f * math.Pow(10, e)
			if v < low || v > high {
				continue
			}
			t := plot.Tick{Value: v}
			if f == 1 || decades < 2.5 {
				t.Label = fmt.Sprintf("%.4g", v)
			}
			all = append(all, t)
		}
	}
	return all
}
