package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"
)

// stepLimit bounds a poll or a stream; reaching it fails the run.
const stepLimit = 90 * time.Second

// Answer is what one step leaves in the expectation file.
type Answer struct {
	Name    string         `json:"name"`
	Status  int            `json:"status"`
	Headers map[string]any `json:"headers,omitempty"`
	Body    any            `json:"body,omitempty"`
	// Select holds the picked parts of the body by pointer; a part that is
	// not there is absent.
	Select map[string]any `json:"select,omitempty"`
	Text   *string        `json:"text,omitempty"`
	Events *[]any         `json:"events,omitempty"`
}

type runner struct {
	base   string
	client *http.Client
	script *Script
	vars   map[string]string
	mask   *masker
	// auditLog is the file of a server that has one.
	auditLog string
}

func (r *runner) run() ([]Answer, error) {
	answers := make([]Answer, 0, len(r.script.Steps))
	for i := range r.script.Steps {
		step := &r.script.Steps[i]
		answer, err := r.step(step)
		if err != nil {
			return nil, fmt.Errorf("step %q: %w", step.Name, err)
		}
		answers = append(answers, *answer)
	}
	return answers, nil
}

func (r *runner) step(step *Step) (*Answer, error) {
	if step.Watch != nil {
		return r.watch(step)
	}
	// Twice the limit of polling, so that a poll ends with its last answer.
	ctx, cancel := context.WithTimeout(context.Background(), 2*stepLimit)
	defer cancel()
	polled := time.After(stepLimit)
	for {
		response, err := r.ask(ctx, step)
		if err != nil && len(step.Until) > 0 && ctx.Err() == nil {
			// A type that just got a subresource makes upstream's handler panic
			// for a moment, which ends the stream.
			select {
			case <-polled:
				return nil, err
			case <-time.After(50 * time.Millisecond):
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return nil, err
		}
		missing := unmet(step.Until, response.StatusCode, data)
		if response.StatusCode == http.StatusTooManyRequests && !ofBudget(data) {
			// Upstream rebuilds a type's storage when its registration changes
			// and sends whoever comes in between away.
			missing = "anything but 429"
		}
		if missing == "" {
			return r.answer(step, response, data)
		}
		select {
		case <-polled:
			return nil, fmt.Errorf("never saw %s; last answer: %d %.2000s", missing, response.StatusCode, data)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ofBudget tells the 429 of a PodDisruptionBudget, which is an answer, from
// that of a server which asks for patience.
func ofBudget(data []byte) bool {
	var status struct {
		Details struct {
			Causes []struct {
				Reason string `json:"reason"`
			} `json:"causes"`
		} `json:"details"`
	}
	if json.Unmarshal(data, &status) != nil {
		return false
	}
	for _, cause := range status.Details.Causes {
		if cause.Reason == "DisruptionBudget" {
			return true
		}
	}
	return false
}

// ask sends a step's request. The method AUDIT is none: the answer is a list of
// the audit log's events with the id that the path names.
func (r *runner) ask(ctx context.Context, step *Step) (*http.Response, error) {
	if step.Method != "AUDIT" {
		return r.send(ctx, step)
	}
	text, err := os.ReadFile(r.auditLog)
	if err != nil {
		return nil, err
	}
	events := []any{}
	for line := range bytes.Lines(text) {
		// The last one may not be there whole.
		event, err := decode(line)
		if err != nil || !bytes.HasSuffix(line, []byte("\n")) {
			continue
		}
		if id, _ := lookup(event, []string{"auditID"}); id == step.Path {
			events = append(events, event)
		}
	}
	header := http.Header{"Content-Type": {"application/json"}}
	body := io.NopCloser(bytes.NewReader(encode(map[string]any{"events": events})))
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: body}, nil
}

func (r *runner) send(ctx context.Context, step *Step) (*http.Response, error) {
	path, err := substitute(step.Path, r.vars)
	if err != nil {
		return nil, err
	}
	query, err := step.queryString(r.vars)
	if err != nil {
		return nil, err
	}
	body, err := step.requestBody(r.script, r.vars)
	if err != nil {
		return nil, err
	}
	target := r.base + path
	if query != "" {
		target += "?" + query
	}
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	request, err := http.NewRequestWithContext(ctx, step.Method, target, reader)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "kindom-replay/1")
	// "-" sends no header at all.
	if accept := or(step.Accept, "application/json"); accept != "-" {
		request.Header.Set("Accept", accept)
	}
	if contentType := or(step.ContentType, "application/json"); body != nil && contentType != "-" {
		request.Header.Set("Content-Type", contentType)
	}
	for key, values := range step.Headers {
		// A script may be another client.
		request.Header.Del(key)
		for _, value := range values {
			text, err := substitute(value, r.vars)
			if err != nil {
				return nil, err
			}
			request.Header.Add(key, text)
		}
	}
	return r.client.Do(request)
}

func or(value *string, fallback string) string {
	if value != nil {
		return *value
	}
	return fallback
}

// unmet names the first condition that does not hold yet.
func unmet(conditions []Condition, status int, data []byte) string {
	for _, c := range conditions {
		if c.Status != 0 {
			if status != c.Status {
				return fmt.Sprintf("status %d", c.Status)
			}
			continue
		}
		value, err := decode(data)
		if err != nil {
			return "JSON"
		}
		if c.Condition != "" {
			kind, wanted, _ := strings.Cut(c.Condition, "=")
			if found, _ := lookup(value, []string{"status", "conditions", "[type=" + kind + "]", "status"}); found != wanted {
				return c.Condition
			}
			continue
		}
		wanted, err := decode(c.Equals)
		if err != nil {
			return "a value to compare " + c.Pointer + " with"
		}
		found, _ := lookup(value, segments(c.Pointer))
		if !bytes.Equal(encode(found), encode(wanted)) {
			return fmt.Sprintf("%s = %s", c.Pointer, encode(wanted))
		}
	}
	return ""
}

func (r *runner) answer(step *Step, response *http.Response, data []byte) (*Answer, error) {
	answer := &Answer{Name: step.Name, Status: response.StatusCode}
	var value any
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	// The answer to a HEAD and a redirect promise a type and have no body.
	if kind == "application/json" && len(data) > 0 {
		var err error
		if value, err = decode(data); err != nil {
			return nil, fmt.Errorf("the answer is not JSON: %w", err)
		}
	}
	for name, source := range step.Capture {
		if header, ok := strings.CutPrefix(source, "header:"); ok {
			r.vars[name] = response.Header.Get(header)
			continue
		}
		found, ok := lookup(value, segments(source))
		if !ok {
			return nil, fmt.Errorf("nothing at %s to capture in %d %.2000s", source, response.StatusCode, data)
		}
		text, ok := found.(string)
		if !ok {
			text = string(encode(found))
		}
		r.vars[name] = text
	}
	if step.Record == "status" {
		return answer, nil
	}
	answer.Headers = r.headers(response.Header)
	switch {
	case len(step.Select) > 0:
		answer.Select = map[string]any{}
		masked := r.mask.body(value)
		for _, pointer := range step.Select {
			path, err := substitute(pointer, r.vars)
			if err != nil {
				return nil, err
			}
			if part, found := lookup(masked, segments(path)); found {
				answer.Select[pointer] = part
			}
		}
	case value != nil && step.Record != "text":
		answer.Body = r.mask.body(value)
	case len(data) > 0:
		text := r.mask.document(string(data))
		answer.Text = &text
	}
	return answer, nil
}

// headers keeps those whose value the API promises.
func (r *runner) headers(from http.Header) map[string]any {
	kept := map[string]any{}
	for _, name := range []string{"Content-Type", "Retry-After", "Location", "Allow"} {
		if value := from.Get(name); value != "" {
			kept[name] = r.mask.text(value)
		}
	}
	if from.Get("ETag") != "" {
		kept["ETag"] = "<present>"
	}
	if warnings := from.Values("Warning"); len(warnings) > 0 {
		kept["Warning"] = warnings
	}
	return kept
}

func (r *runner) watch(step *Step) (*Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	response, err := r.send(ctx, step)
	for err == nil && response.StatusCode == http.StatusTooManyRequests {
		response.Body.Close()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
		response, err = r.send(ctx, step)
	}
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		data, err := io.ReadAll(response.Body)
		if err != nil {
			return nil, err
		}
		return r.answer(step, response, data)
	}
	answer := &Answer{Name: step.Name, Status: response.StatusCode, Headers: r.headers(response.Header)}
	events := []any{}
	decoder := json.NewDecoder(response.Body)
	decoder.UseNumber()
	for step.Watch.Until != "" || len(events) < step.Watch.Events {
		var event map[string]any
		if err := decoder.Decode(&event); err != nil {
			if errors.Is(err, io.EOF) && step.Watch.Until == "end" {
				break
			}
			return nil, fmt.Errorf("after %d events (%s): %w", len(events), encode(events), err)
		}
		events = append(events, map[string]any{"type": event["type"], "object": r.mask.event(event["type"], event["object"])})
		if step.Watch.Until == "initial-events-end" && endsInitialEvents(event) {
			break
		}
	}
	answer.Events = &events
	return answer, nil
}

// endsInitialEvents knows the marked bookmark, also where it is a Table's row.
func endsInitialEvents(event any) bool {
	for _, path := range [][]string{{"object"}, {"object", "rows", "0", "object"}} {
		marker, _ := lookup(event, append(path, "metadata", "annotations", "k8s.io/initial-events-end"))
		if marker == "true" {
			return true
		}
	}
	return false
}
