package read

import (
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

// colors of the transports, and of floors; a plot that prints in grey tells them
// apart by their shapes.
var (
	colors     = [...]color.Color{SHM: color.RGBA{0x00, 0x9e, 0x73, 0xff}, RDMA: color.RGBA{0x00, 0x72, 0xb2, 0xff}, TCP: color.RGBA{0xd5, 0x5e, 0x00, 0xff}}
	floorColor = color.Gray{0x70}
)

// mark is one row of a panel.
type mark struct {
	name  string
	ours  Spread
	floor *Spread
	color color.Color
}

// WritePNG draws rates, latencies and ratios. A disc is the median of the rounds,
// a ring that of the floor; the lines go from the least to the most.
func (r *Result) WritePNG(w io.Writer) error {
	var rates, latencies, ratios []mark
	for _, row := range r.Rows {
		m := mark{name: row.name(), color: colors[row.Transport], floor: row.FloorSpread}
		if row.OursSpread != nil {
			m.ours = *row.OursSpread
		}
		if row.Mode == Rate {
			rates = append(rates, m)
		} else {
			latencies = append(latencies, m)
		}
		if row.Ratio != nil {
			ratios = append(ratios, mark{name: row.name(), ours: *row.Ratio, color: m.color})
		}
	}
	var plots []*plot.Plot
	for _, p := range []struct {
		title string
		marks []mark
	}{{"reads a second, millions", rates}, {"latency of one read, median, us", latencies}, {"ours by the floor's (latency: less is better)", ratios}} {
		if len(p.marks) == 0 {
			continue
		}
		panel, err := newPanel(p.title, p.marks)
		if err != nil {
			return err
		}
		plots = append(plots, panel)
	}
	if len(plots) == 0 {
		return fmt.Errorf("%w: nothing to draw", ErrConfig)
	}
	rows := max(len(rates), len(latencies), len(ratios))
	c := vgimg.NewWith(vgimg.UseWH(vg.Length(len(plots))*13*vg.Centimeter, vg.Length(rows+4)*0.5*vg.Centimeter), vgimg.UseDPI(96))
	tiles := draw.Tiles{Rows: 1, Cols: len(plots), PadX: vg.Centimeter, PadTop: 4, PadBottom: 4, PadLeft: 4, PadRight: 12}
	for i, cell := range plot.Align([][]*plot.Plot{plots}, tiles, draw.New(c))[0] {
		plots[i].Draw(cell)
	}
	_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(w)
	return err
}

func newPanel(title string, marks []mark) (*plot.Plot, error) {
	p := plot.New()
	p.X.Label.Text = title
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, nices{}
	low, high := math.Inf(1), math.Inf(-1)
	var names []string
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xe8}, color.Gray{0xd0}
	p.Add(grid)
	for i, m := range slices.Backward(marks) { // the first on top
		at := float64(len(marks) - 1 - i)
		names = append(names, m.name)
		draws := []struct {
			s     Spread
			color color.Color
			shape draw.GlyphDrawer
			off   float64
		}{{m.ours, m.color, draw.CircleGlyph{}, 0.12}}
		if m.floor != nil {
			draws = append(draws, draws[0])
			draws[1].s, draws[1].color, draws[1].shape, draws[1].off = *m.floor, floorColor, draw.RingGlyph{}, -0.16
		}
		for _, d := range draws {
			s := Spread{Median: positive(d.s.Median), Least: positive(d.s.Least), Most: positive(d.s.Most)}
			low, high = min(low, s.Least), max(high, s.Most)
			line, err := plotter.NewLine(plotter.XYs{{X: s.Least, Y: at + d.off}, {X: s.Most, Y: at + d.off}})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.name, err)
			}
			line.Color, line.Width = d.color, vg.Points(1.5)
			point, err := plotter.NewScatter(plotter.XYs{{X: s.Median, Y: at + d.off}})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.name, err)
			}
			point.GlyphStyle = draw.GlyphStyle{Color: d.color, Radius: vg.Points(3), Shape: d.shape}
			p.Add(line, point)
		}
	}
	p.X.Min, p.X.Max = low/1.1, high*1.1
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.6, float64(len(marks))-0.4
	return p, nil
}

// positive keeps a value on a logarithmic axis.
func positive(v float64) float64 { return max(v, 1e-9) }

// nices labels 1, 2 and 5 times the powers of ten.
type nices struct{}

func (nices) Ticks(low, high float64) (ticks []plot.Tick) {
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
			ticks = append(ticks, t)
		}
	}
	return ticks
}
