package sink

import (
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// colors of the waits, that of a plot that prints in grey too.
var colors = [...]color.Color{Sleep: color.RGBA{0xd5, 0x5e, 0x00, 0xff}, Exact: color.RGBA{0x00, 0x72, 0xb2, 0xff}, Held: color.RGBA{0xcc, 0x79, 0xa7, 0xff}, Store: color.RGBA{0x00, 0x9e, 0x73, 0xff}}

// WritePNG draws throughput and p99 of each row, on logarithmic axes: a point is
// the median round, the line through it goes from the least to the most of all
// rounds. A ring instead of a disc means that records were dropped.
func (r *Result) WritePNG(w io.Writer) error {
	const width, height = 26 * vg.Centimeter, 11 * vg.Centimeter
	throughput, err := r.panel("records written per second", func(row Row) float64 { return row.RecordsPerSecond })
	if err != nil {
		return err
	}
	latency, err := r.panel("end to end p99, ms", func(row Row) float64 { return row.E2E.P99 / 1e3 })
	if err != nil {
		return err
	}
	throughput.Legend.Top, throughput.Legend.Left = true, true
	for _, wait := range r.waits() {
		throughput.Legend.Add("wait "+wait.String(), disc(wait))
	}
	throughput.Legend.Add("records dropped", ring{Sleep})
	c := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(96))
	dc := draw.New(c)
	plots := [][]*plot.Plot{{throughput, latency}}
	for i, cell := range plot.Align(plots, draw.Tiles{Rows: 1, Cols: 2, PadX: vg.Centimeter, PadTop: 4, PadBottom: 4, PadLeft: 4, PadRight: 8}, dc)[0] {
		plots[0][i].Draw(cell)
	}
	_, err = vgimg.PngCanvas{Canvas: c}.WriteTo(w)
	return err
}

func (r *Result) waits() (waits []Wait) {
	for _, row := range r.Rows {
		if len(waits) == 0 || waits[len(waits)-1] != row.Wait {
			waits = append(waits, row.Wait)
		}
	}
	return waits
}

// panel draws one number of all rows.
func (r *Result) panel(title string, value func(Row) float64) (*plot.Plot, error) {
	p := plot.New()
	p.X.Label.Text = title
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{}
	p.X.Min, p.X.Max = math.Inf(1), math.Inf(-1)
	var names []string
	perWait := len(r.Rows) / max(len(r.waits()), 1)
	for i, row := range r.Rows {
		at := float64(perWait - 1 - i%perWait) // the first row on top
		if i < perWait {
			names = append([]string{row.Name()}, names...)
		}
		at += 0.16 * (float64(len(r.waits())-1) - 2*float64(i/perWait)) // the waits do not cover each other
		median := max(value(row), math.SmallestNonzeroFloat32)
		low, high := median, median
		for _, o := range Spread(r.Rounds, row) {
			v := max(value(o), math.SmallestNonzeroFloat32)
			low, high = min(low, v), max(high, v)
		}
		p.X.Min, p.X.Max = min(p.X.Min, low), max(p.X.Max, high)
		line, err := plotter.NewLine(plotter.XYs{{X: low, Y: at}, {X: high, Y: at}})
		if err != nil {
			return nil, fmt.Errorf("row %s: %w", row.Name(), err)
		}
		line.Color, line.Width = colors[row.Wait], vg.Points(1.5)
		point, err := plotter.NewScatter(plotter.XYs{{X: median, Y: at}})
		if err != nil {
			return nil, fmt.Errorf("row %s: %w", row.Name(), err)
		}
		point.GlyphStyle = disc(row.Wait).GlyphStyle
		if row.Dropped > 0 {
			point.Shape = draw.RingGlyph{}
		}
		p.Add(line, point)
	}
	p.X.Min, p.X.Max = decadeBelow(p.X.Min), decadeAbove(p.X.Max)
	p.NominalY(names...)
	p.Y.Max = float64(perWait) + 0.11*float64(perWait)*float64(len(r.waits())+1)/2 // room for the legend
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xe0}, color.Gray{0xd0}
	p.Add(grid)
	return p, nil
}

func decadeBelow(v float64) float64 { return math.Pow(10, math.Floor(math.Log10(v))) }
func decadeAbove(v float64) float64 { return math.Pow(10, math.Ceil(math.Log10(v))) }

// decades labels the powers of ten.
type decades struct{}

func (decades) Ticks(low, high float64) (ticks []plot.Tick) {
	for v := decadeBelow(low); v <= high*1.001; v *= 10 {
		t := plot.Tick{Value: v, Label: fmt.Sprintf("%g", v)}
		if v >= 1e3 {
			t.Label = fmt.Sprintf("%gk", v/1e3)
		}
		ticks = append(ticks, t)
	}
	return ticks
}

func disc(w Wait) *plotter.Scatter {
	return &plotter.Scatter{GlyphStyle: draw.GlyphStyle{Color: colors[w], Radius: vg.Points(3.5), Shape: draw.CircleGlyph{}}}
}

// ring is the legend's picture of dropped records.
type ring struct{ wait Wait }

func (g ring) Thumbnail(c *draw.Canvas) {
	s := disc(g.wait).GlyphStyle
	s.Color, s.Shape = color.Gray{0x60}, draw.RingGlyph{}
	c.DrawGlyph(s, c.Center())
}
