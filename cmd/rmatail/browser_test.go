package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is a tab of a real one.
type browser struct {
	t   *testing.T
	ctx context.Context
	mu  struct {
		sync.Mutex
		failures []string // uncaught exceptions
	}
}

// chromium is the path of the browser. Where it is promised (CI) it must be there;
// elsewhere the test is skipped.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("RMATAIL_BROWSER"), "chromium", "chromium-browser", "google-chrome", "chrome"} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no browser: CI needs one; scripts/test --ring real installs Debian's chromium")
	}
	t.Skip("no browser (chromium, chromium-browser, google-chrome): the page is not tested")
	return ""
}

// openBrowser starts a browser without a window, with an empty page.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	path := chromium(t)
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WSURLReadTimeout(patience))
	if os.Geteuid() == 0 {
		opts = append(opts, chromedp.NoSandbox) // its sandbox refuses root
	}
	ctx, release := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, end := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		bounded, stop := context.WithTimeout(ctx, patience)
		defer stop()
		if err := chromedp.Cancel(bounded); err != nil {
			t.Logf("the browser's end: %v", err)
		}
		end()
		release()
	})
	b := &browser{t: t, ctx: ctx}
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatal(err)
	}
	err := chromedp.Listen(ctx, func(ev any) {
		if e, ok := ev.(*runtime.EventExceptionThrown); ok {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.mu.failures = append(b.mu.failures, fmt.Sprintf("%s at %s:%d", e.ExceptionDetails.Exception.Description, e.ExceptionDetails.URL, e.ExceptionDetails.LineNumber))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// eval is the value of an expression.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits for an expression to be true, and says what it saw instead. Of an element that
// is not there yet it is not.
func (b *browser) until(what, expression string) {
	b.t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if eval[bool](b, "(() => { try { return !!("+expression+") } catch (e) { if (e instanceof TypeError) return false; throw e } })()") {
			return
		}
		if time.Now().After(deadline) {
			b.shot("failed")
			b.t.Fatalf("not seen within %v: %s\nthe page says:\n%s", patience, what, eval[string](b, "document.body.innerText"))
		}
	}
}

// look sets the window and the scheme, light or dark.
func (b *browser) look(width, height int64, scheme string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	if err != nil {
		b.t.Fatal(err)
	}
}

// shot writes a picture of the whole page below .build.
func (b *browser) shot(name string) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	dir := filepath.Join("..", "..", ".build", "page")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// sane fails if the script did.
func (b *browser) sane() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.mu.failures {
		b.t.Errorf("the script failed: %s", f)
	}
}

// open goes to an address.
func (b *browser) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
}
