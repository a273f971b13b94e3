package deploy_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/VictoriaMetrics/metricsql"
)

// The parser takes more than Prometheus does. What only it takes is refused here.
var (
	rollups    = []string{"rate", "increase"}
	functions  = []string{"histogram_quantile", "rate", "increase", "absent"}
	aggregates = []string{"sum", "max", "min", "avg", "count"}
	operators  = []string{"+", "-", "*", "/", ">", "<", "==", "!=", ">=", "<=", "and", "or", "unless"}
	// targetLabels are those that a scrape adds.
	targetLabels = []string{"instance", "job"}
)

// problems says what is wrong with an expression, given the metrics that exist.
func problems(expr string, known map[string]metric) (all []string) {
	e, err := metricsql.Parse(expr)
	if err != nil {
		return []string{err.Error()}
	}
	c := &checker{known: known}
	c.visit(e, "")
	return c.problems
}

// checker walks an expression.
type checker struct {
	known    map[string]metric
	problems []string
}

func (c *checker) wrong(format string, a ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, a...))
}

// visit checks an expression; in is the function that it is an argument of.
func (c *checker) visit(e metricsql.Expr, in string) {
	switch e := e.(type) {
	case *metricsql.MetricExpr:
		c.metric(e, in)
	case *metricsql.RollupExpr:
		if e.Window == nil || e.Step != nil || e.InheritStep {
			c.wrong("a window that Prometheus does not take")
		}
		if !slices.Contains(rollups, in) {
			c.wrong("a window outside rate and increase")
		}
		if _, ok := e.Expr.(*metricsql.MetricExpr); !ok {
			c.wrong("a window over something else than a metric")
		}
		c.visit(e.Expr, in+"[]")
	case *metricsql.FuncExpr:
		if !slices.Contains(functions, e.Name) || e.KeepMetricNames {
			c.wrong("function %s", e.Name)
		}
		for _, a := range e.Args {
			c.visit(a, e.Name)
		}
	case *metricsql.AggrFuncExpr:
		if !slices.Contains(aggregates, e.Name) || e.Limit != 0 || len(e.Args) != 1 {
			c.wrong("aggregation %s of %d arguments", e.Name, len(e.Args))
		}
		for _, a := range e.Args {
			if e.Modifier.Op != "" {
				c.labels(a, e.Modifier.Args)
			}
			c.visit(a, e.Name)
		}
	case *metricsql.BinaryOpExpr:
		if !slices.Contains(operators, strings.ToLower(e.Op)) {
			c.wrong("operator %s", e.Op)
		}
		c.visit(e.Left, "")
		c.visit(e.Right, "")
	case *metricsql.NumberExpr:
	default:
		c.wrong("a %T", e)
	}
}

// metric checks a selector: the metric exists, has the labels, and is used as its kind.
func (c *checker) metric(e *metricsql.MetricExpr, in string) {
	if len(e.LabelFilterss) != 1 {
		c.wrong("a selector with or, which Prometheus does not take")
		return
	}
	name, m, ok := c.named(e)
	if !ok {
		c.wrong("metric %s does not exist", name)
		return
	}
	for _, l := range e.LabelFilterss[0] {
		if l.Label != "__name__" && !m.has(l.Label) {
			c.wrong("metric %s has no label %s", name, l.Label)
		}
	}
	counts := m.kind == "counter" || m.kind == "histogram"
	if windowed := strings.HasSuffix(in, "[]"); counts != windowed {
		c.wrong("metric %s, a %s, in %q", name, m.kind, in)
	}
}

// named returns the metric that a selector is of.
func (c *checker) named(e *metricsql.MetricExpr) (name string, m metric, ok bool) {
	for _, l := range e.LabelFilterss[0] {
		if l.Label == "__name__" && !l.IsRegexp && !l.IsNegative {
			name = l.Value
		}
	}
	if m, ok = c.known[name]; ok {
		return name, m, m.kind != "histogram"
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, cut := strings.CutSuffix(name, suffix); cut {
			if m, ok := c.known[base]; ok && m.kind == "histogram" {
				return name, m, true
			}
		}
	}
	return name, m, false
}

// labels checks that what is aggregated over has the labels that are kept.
func (c *checker) labels(e metricsql.Expr, kept []string) {
	metricsql.VisitAll(e, func(x metricsql.Expr) {
		s, ok := x.(*metricsql.MetricExpr)
		if !ok || len(s.LabelFilterss) != 1 {
			return
		}
		name, m, ok := c.named(s)
		for _, l := range kept {
			if ok && !m.has(l) {
				c.wrong("metric %s has no label %s to aggregate by", name, l)
			}
		}
	})
}

func (m metric) has(label string) bool {
	return slices.Contains(m.labels, label) || slices.Contains(targetLabels, label) || label == "le" && m.kind == "histogram"
}
