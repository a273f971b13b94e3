// Package page is the page of a node: a browser's view of its cluster, live.
//
// It is one HTML file with its style and its script, embedded, without a build step
// and without anything from elsewhere. What it shows comes as server-sent events: a
// sample a second, taken only while somebody looks, made once for all who do. Samples
// that a client is too slow for are left out for it; one that takes no bytes for
// Config.Write is cut off. How many may look at once is bounded.
//
// The package knows nothing of what is shown: a Sample is whatever JSON the script
// reads, see chunkstore/watch.Frame.
//
// # Events
//
//	history   an array of points, the oldest first: once, at the beginning
//	frame     what is now: every second
//
// # Hostile bytes
//
// Names come from everywhere. The script makes text nodes of them and never markup,
// and the Content-Security-Policy lets no script but the page's own run, lets the page
// load nothing from elsewhere, and lets nobody frame it.
package page
