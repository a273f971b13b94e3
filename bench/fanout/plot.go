package fanout

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

var (
	oursColor  = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	peerColor  = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	floorColor = color.Gray{0x70}
)

// mark is one row of a panel: a disc for the median, a ring for a second one.
type mark struct {
	name   string
	color  color.Color
	values []span
}

type span struct{ median, least, most float64 }

func (r Row) mark() mark {
	m := mark{name: fmt.Sprintf("%s, %s, %d x %d", r.Program, r.Workload, r.Consumers, r.Shards), color: peerColor}
	if r.Poll > 0 {
		m.name += fmt.Sprintf(", %g ms", r.Poll)
	}
	switch {
	case r.Program.ours() && r.Program != Naive:
		m.color = oursColor
	case r.Program == Plain || r.Program == Pread:
		m.color = floorColor
	}
	return m
}

// WritePNG draws deliveries (discs p50, rings p99) and the server's processor time.
func (r *Result) WritePNG(w io.Writer) error {
	var deliveries, costs []mark
	for _, row := range r.Rows {
		if row.Least == nil || row.Consumers == 0 {
			continue
		}
		d, c := row.mark(), row.mark()
		d.values = []span{{row.P50, row.Least.P50, row.Most.P50}, {row.P99, row.Least.P99, row.Most.P99}}
		c.values = []span{{row.ServerPerMB, row.Least.ServerPerMB, row.Most.ServerPerMB}}
		deliveries, costs = append(deliveries, d), append(costs, c)
	}
	if len(deliveries) == 0 {
		return fmt.Errorf("%w: nothing to draw", ErrConfig)
	}
	left, err := newPanel("delivery, p50 and p99, ms", deliveries)
	if err != nil {
		return err
	}
	right, err := newPanel("server CPU, ms by MB", costs)
	if err != nil {
		return err
	}
	c := vgimg.NewWith(vgimg.UseWH(30*vg.Centimeter, vg.Length(len(deliveries)+4)*0.5*vg.Centimeter), vgimg.UseDPI(96))
	tiles := draw.Tiles{Rows: 1, Cols: 2, PadX: vg.Centimeter, PadTop: 4, PadBottom: 4, PadLeft: 4, PadRight: 12}
	plots := []*plot.Plot{left, right}
	for i, at := range plot.Align([][]*plot.Plot{plots}, tiles, draw.New(c))[0] {
		plots[i].Draw(at)
	}
	_, err = vgimg.PngCanvas{Canvas: c}.WriteTo(w)
	return err
}

// smallest keeps values on a logarithmic axis.
const smallest = 1e-3

func newPanel(title string, marks []mark) (*plot.Plot, error) {
	p := plot.New()
	p.X.Label.Text = title
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xe8}, color.Gray{0xd0}
	p.Add(grid)
	low, high := math.Inf(1), math.Inf(-1)
	var names []string
	for i, m := range slices.Backward(marks) { // the first on top
		at := float64(len(marks) - 1 - i)
		names = append(names, m.name)
		for k, s := range m.values {
			s = span{max(s.median, smallest), max(s.least, smallest), max(s.most, smallest)}
			low, high = min(low, s.least), max(high, s.most)
			line, err := plotter.NewLine(plotter.XYs{{X: s.least, Y: at}, {X: s.most, Y: at}})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.name, err)
			}
			line.Color, line.Width = m.color, vg.Points(1)
			point, err := plotter.NewScatter(plotter.XYs{{X: s.median, Y: at}})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.name, err)
			}
			point.GlyphStyle = draw.GlyphStyle{Color: m.color, Radius: vg.Points(3), Shape: [...]draw.GlyphDrawer{draw.CircleGlyph{}, draw.RingGlyph{}}[k]}
			p.Add(line, point)
		}
	}
	p.X.Min, p.X.Max = low/1.2, high*1.2
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.6, float64(len(marks))-0.4
	return p, nil
}

// decades labels the powers of ten.
type decades struct{}

func (decades) Ticks(low, high float64) (ticks []plot.Tick) {
	for e := math.Ceil(math.Log10(low)); e <= math.Log10(high); e++ {
		v := math.Pow(10, e)
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%.4g", v)})
	}
	return ticks
}
