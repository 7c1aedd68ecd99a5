package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// caseWorkers is how many objects are written at the same time. What one is
// answered does not depend on the others.
const caseWorkers = 2

// revision stands in a body for the last resourceVersion that an answer of the
// same sequence gave.
const revision = "${rv}"

// Case is one line of `cases.jsonl`, made by `integration/src/differential`.
type Case struct {
	Sequence    int    `json:"sequence"`
	Method      string `json:"method"`
	Path        string `json:"path"`
	ContentType string `json:"contentType"`
	Body        string `json:"body"`
}

// Told is one line of `answers.jsonl`: an answer to the byte. Masking is left
// to who compares, so that both sides are masked by the same code.
type Told struct {
	Status   int      `json:"status"`
	Warnings []string `json:"warnings,omitempty"`
	Body     string   `json:"body"`
}

// answerCases answers the cases of a folder: it registers `types.json`, sends
// `cases.jsonl` and writes `answers.jsonl`, line for line.
func answerCases(folder, base string, client *http.Client) error {
	if err := register(filepath.Join(folder, "types.json"), base, client); err != nil {
		return err
	}
	file, err := os.Open(filepath.Join(folder, "cases.jsonl"))
	if err != nil {
		return err
	}
	defer file.Close()
	var sequences [][]Case
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var next Case
		if err := json.Unmarshal(lines.Bytes(), &next); err != nil {
			return err
		}
		if last := len(sequences) - 1; last >= 0 && sequences[last][0].Sequence == next.Sequence {
			sequences[last] = append(sequences[last], next)
			continue
		}
		sequences = append(sequences, []Case{next})
	}
	if err := lines.Err(); err != nil {
		return err
	}
	answers := make([][]Told, len(sequences))
	failures := make(chan error, caseWorkers)
	next := make(chan int)
	var group sync.WaitGroup
	for range caseWorkers {
		group.Go(func() {
			for number := range next {
				told, err := answerInOneSecond(sequences[number], base, client)
				if err != nil {
					select {
					case failures <- fmt.Errorf("sequence %d: %w", number, err):
					default:
					}
				}
				answers[number] = told
			}
		})
	}
	for number := range sequences {
		next <- number
	}
	close(next)
	group.Wait()
	select {
	case err := <-failures:
		return err
	default:
	}
	out, err := os.Create(filepath.Join(folder, "answers.jsonl"))
	if err != nil {
		return err
	}
	defer out.Close()
	made := header()
	made["command"] = "go run . -cases FOLDER"
	buffered := bufio.NewWriter(out)
	encoder := json.NewEncoder(buffered)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(map[string]any{"oracle": made}); err != nil {
		return err
	}
	count := 0
	for _, told := range answers {
		for _, answer := range told {
			if err := encoder.Encode(answer); err != nil {
				return err
			}
			count++
		}
	}
	fmt.Printf("%d cases\n", count)
	return buffered.Flush()
}

// register creates the types and waits until each version of each is served.
func register(path, base string, client *http.Client) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var types []map[string]any
	if err := json.Unmarshal(data, &types); err != nil {
		return err
	}
	const registrations = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	for _, registration := range types {
		told, err := ask(base, client, Case{Method: "POST", Path: registrations, ContentType: "application/json", Body: string(encode(registration))})
		if err != nil {
			return err
		}
		if told.Status != http.StatusCreated {
			return fmt.Errorf("a registration is refused: %s", told.Body)
		}
	}
	for _, registration := range types {
		text := func(path ...string) string {
			value, _ := lookup(registration, path)
			text, _ := value.(string)
			return text
		}
		for _, version := range []string{"v1", "v2"} {
			list := fmt.Sprintf("/apis/%s/%s/%s", text("spec", "group"), version, text("spec", "names", "plural"))
			deadline := time.Now().Add(startLimit)
			for {
				told, err := ask(base, client, Case{Method: "GET", Path: list})
				if err != nil {
					return err
				}
				if told.Status == http.StatusOK {
					break
				}
				if time.Now().After(deadline) {
					return fmt.Errorf("%s is not served: %s", list, told.Body)
				}
				time.Sleep(50 * time.Millisecond)
			}
		}
	}
	return nil
}

// moment is a time that the server set.
var moment = regexp.MustCompile(`20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// attempts bounds how often a sequence is answered anew.
const attempts = 50

// answerInOneSecond answers a sequence whose writes all fall into one second:
// the order of managedFields depends on the whole second of each, and whether a
// write changes anything depends on the order.
func answerInOneSecond(cases []Case, base string, client *http.Client) ([]Told, error) {
	object, _, _ := strings.Cut(cases[0].Path, "?")
	if cases[0].Method == http.MethodPost {
		object = fmt.Sprintf("%s/object-%d", object, cases[0].Sequence)
	}
	for range attempts {
		told, err := answerSequence(cases, base, client)
		if err != nil {
			return nil, err
		}
		moments := map[string]bool{}
		for _, answer := range told {
			for _, found := range moment.FindAllString(answer.Body, -1) {
				moments[found] = true
			}
		}
		if len(moments) <= 1 {
			return told, nil
		}
		if _, err := ask(base, client, Case{Method: http.MethodDelete, Path: object}); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("the writes never fell into one second")
}

func answerSequence(cases []Case, base string, client *http.Client) ([]Told, error) {
	told := make([]Told, 0, len(cases))
	last := "1"
	for _, next := range cases {
		next.Body = strings.ReplaceAll(next.Body, revision, last)
		answer, err := ask(base, client, next)
		if err != nil {
			return nil, err
		}
		told = append(told, answer)
		var object struct {
			Metadata struct {
				ResourceVersion string `json:"resourceVersion"`
			} `json:"metadata"`
		}
		if answer.Status < 300 && json.Unmarshal([]byte(answer.Body), &object) == nil && object.Metadata.ResourceVersion != "" {
			last = object.Metadata.ResourceVersion
		}
	}
	return told, nil
}

// ask sends a case until the answer is anything but a 429.
func ask(base string, client *http.Client, of Case) (Told, error) {
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, of.Method, base+of.Path, bytes.NewReader([]byte(of.Body)))
		if err != nil {
			return Told{}, err
		}
		request.Header.Set("User-Agent", "kindom-replay/1")
		request.Header.Set("Accept", "application/json")
		if of.ContentType != "" {
			request.Header.Set("Content-Type", of.ContentType)
		}
		response, err := client.Do(request)
		if err != nil {
			return Told{}, err
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return Told{}, err
		}
		if response.StatusCode == http.StatusTooManyRequests {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		return Told{Status: response.StatusCode, Warnings: response.Header.Values("Warning"), Body: string(body)}, nil
	}
}
