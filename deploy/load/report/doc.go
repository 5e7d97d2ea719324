// Package report turns the samples of a load run into what people read: medians
// with their spread, a Markdown page, JSON and an SVG chart.
package report
